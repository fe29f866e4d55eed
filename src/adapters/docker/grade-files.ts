import type { Container } from 'dockerode'

import { LonghaulError } from '../../contracts/errors.ts'
import { type ArchivedFile, readArchivedFile } from './archived-file.ts'
import { isStatus } from './engine-errors.ts'

/** Test logs are text of a few MB. What floods it is cut: its end marker is gone then, so it proves nothing. */
export const MAX_LOG_BYTES = 64 * 1024 * 1024
/** Three short words. */
const MAX_RESULT_BYTES = 4096

export interface GradeFiles {
  log: Uint8Array
  result: string
}

/** Reads log and result out of an ended grading container; `apart`: standard output, then standard error. What comes out was written next to hostile code: regular
 *  files of the expected names and a bounded size, nothing else. A log that is something else counts as empty.
 *  @throws LonghaulError `Grading.Failed` */
export async function readGradeFiles(container: Container, output: 'merged' | 'apart'): Promise<GradeFiles> {
  const result = await readFile(container, 'result', MAX_RESULT_BYTES)
  if (result.kind === 'refused') throw failed(`The grading container ended without a result: ${result.reason}`)
  const logs = await Promise.all(
    (output === 'apart' ? ['log', 'errors'] : ['log']).map((name) => readFile(container, name, MAX_LOG_BYTES)),
  )
  const found = logs.map((log) => (log.kind === 'file' ? log.bytes : new Uint8Array()))
  const log = found.length === 1 ? (found[0] ?? new Uint8Array()) : Buffer.concat(found)
  return { log, result: result.bytes.toString() }
}

async function readFile(container: Container, name: string, maxBytes: number): Promise<ArchivedFile> {
  try {
    const stream = await container.getArchive({ path: `/.lh/grade/${name}` })
    return await readArchivedFile({ stream: stream as AsyncIterable<Uint8Array>, name, maxBytes })
  } catch (error) {
    if (isStatus(error, 404)) return { kind: 'refused', reason: 'there is none' }
    throw error
  }
}

function failed(message: string): LonghaulError {
  return new LonghaulError({ code: 'Grading.Failed', message })
}
