import type { Container } from 'dockerode'
import { type ParsedTarEntryWithData, unpackTar } from 'modern-tar'

import { LonghaulError } from '../../contracts/errors.ts'
import { isStatus } from './engine-errors.ts'

/** Test logs are text of a few MB; a hostile one must not fill the memory. */
const MAX_ARCHIVE_BYTES = 256 * 1024 * 1024

export interface GradeFiles {
  log: Uint8Array
  result: string
}

/** Reads log and result out of an ended grading container. What comes out was written next to hostile code: regular
 *  files of the expected names and a bounded size, nothing else.
 *  @throws LonghaulError `Grading.Failed` */
export async function readGradeFiles(container: Container): Promise<GradeFiles> {
  const entries = await unpackTar(await readArchive(container))
  const log = fileNamed(entries, 'grade/log')
  const result = fileNamed(entries, 'grade/result')
  if (result === null) throw failed('The grading container ended without a result')
  return { log: log ?? new Uint8Array(), result: Buffer.from(result).toString() }
}

async function readArchive(container: Container): Promise<Buffer> {
  const stream = await container.getArchive({ path: '/.lh/grade' }).catch((error: unknown) => {
    if (isStatus(error, 404)) throw failed('The grading container holds no files of ours')
    throw error
  })
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of stream) {
    const bytes = Buffer.from(chunk)
    length += bytes.length
    if (length > MAX_ARCHIVE_BYTES) throw failed('The log of the evaluation is too large')
    chunks.push(bytes)
  }
  return Buffer.concat(chunks)
}

function fileNamed(entries: ParsedTarEntryWithData[], name: string): Uint8Array | null {
  const entry = entries.find(({ header }) => header.name === name && header.type === 'file')
  return entry?.data ?? null
}

function failed(message: string): LonghaulError {
  return new LonghaulError({ code: 'Grading.Failed', message })
}
