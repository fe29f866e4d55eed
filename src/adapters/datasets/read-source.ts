import { asyncBufferFromFile } from 'hyparquet'
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { LonghaulError } from '../../contracts/errors.ts'
import type { ImportedFile, ImportSource } from '../../contracts/suites.types.ts'
import { findHubFiles } from './hub-files.ts'
import { readParquet } from './read-parquet.ts'
import { type LabelledRow, scanRows } from './read-rows.ts'

export interface SourceRows {
  rows: LabelledRow[]
  /** What was read, for the record. */
  files: ImportedFile[]
}

/** Every row of a source, in order; a row that is no JSON is among them. */
export async function readSource(source: ImportSource, { hubUrl }: { hubUrl: string | null }): Promise<SourceRows> {
  return source.kind === 'hub' ? readHub(source, hubUrl) : readLocal(source.path)
}

async function readHub(source: Extract<ImportSource, { kind: 'hub' }>, hubUrl: string | null): Promise<SourceRows> {
  const found = await findHubFiles({ ...source, hubUrl })
  const rows: LabelledRow[] = []
  for (const { path, open } of found) {
    for await (const row of readParquet({ file: await open(), name: path })) rows.push(row)
  }
  return { rows, files: found.map(({ path, bytes, oid }) => ({ path, bytes, id: oid })) }
}

async function readLocal(path: string): Promise<SourceRows> {
  const file = await describeFile(path)
  if (!path.endsWith('.parquet')) return { rows: await scanRows(path), files: [file] }
  const rows: LabelledRow[] = []
  for await (const row of readParquet({ file: await asyncBufferFromFile(path), name: file.path })) rows.push(row)
  return { rows, files: [file] }
}

/** By name, not place: the same file elsewhere makes the same suite. */
async function describeFile(path: string): Promise<ImportedFile> {
  try {
    const { size } = await stat(path)
    const hash = createHash('sha256')
    await pipeline(createReadStream(path), hash)
    return { path: basename(path), bytes: size, id: hash.digest('hex') }
  } catch (cause) {
    throw new LonghaulError({
      code: 'Config.NotFound',
      message: 'Expected a file of task rows, but it cannot be read',
      details: { file: path },
      cause,
    })
  }
}
