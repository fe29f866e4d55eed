import { oneLine } from '../../domain/hostile-text.ts'
import { asyncBufferFromFile, type AsyncBuffer } from 'hyparquet'
import { constants } from 'node:buffer'
import { open, stat, readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { LonghaulError, isLonghaulError } from '../../contracts/errors.ts'
import type { ImportedFile, ImportSource, ImportedSuite, RowsFile } from '../../contracts/suites.types.ts'
import type { HubPlace } from '../hub/requests.ts'
import { describeForeign, describeNotParquet, weighJson } from './foreign-file.ts'
import { findHubFiles } from './hub-files.ts'
import { type ImportLimits, readImportLimits, readParquet } from './parquet-rows.ts'
import { decodeText } from './plain-value.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { isObject } from '../../domain/shapes.ts'
import { sha256Hex, sha256OfFile } from '../../platform/hash.ts'
import { explainUnreadable } from '../../platform/input-file.ts'
import { importedSuite } from '../artifacts/records/suite-shapes.ts'

export interface SourceRows {
  rows: LabelledRow[]
  /** The files that were read, for the record. */
  files: ImportedFile[]
}

/** Progress of reading a source. */
export interface ReadProgress {
  /** Files that were read completely, and the total. */
  files: number
  of: number
  /** Bytes read so far. */
  bytes: number
  rows: number
}

interface ReadOptions {
  hubUrl: string | null
  /** For a hub. @default none is sent */
  token?: HubPlace['token'] | undefined
  onProgress?: ((progress: ReadProgress) => void) | undefined
  /** Of Parquet. @default `readImportLimits` */
  limits?: ImportLimits
}

/** Every row of a source, in order, including lines that are not JSON. */
export async function readSource(source: ImportSource, options: ReadOptions): Promise<SourceRows> {
  return source.kind === 'hub' ? readHub(source, options) : readLocal(source.path, options)
}

async function readHub(
  source: Extract<ImportSource, { kind: 'hub' }>,
  { hubUrl, token, onProgress, limits = readImportLimits() }: ReadOptions,
): Promise<SourceRows> {
  const found = await findHubFiles({ ...source, hubUrl, token })
  const rows: LabelledRow[] = []
  const add = createAdding(rows, limits)
  const progress: ReadProgress = { files: 0, of: found.length, bytes: 0, rows: 0 }
  const say = (): void => onProgress?.({ ...progress })
  say()
  for (const { path, open } of found) {
    const onBytes = (count: number): void => {
      progress.bytes += count
      say()
    }
    await add({ file: counted(await open(), onBytes), name: path, onRows: () => (progress.rows = rows.length) })
    progress.files += 1
    say()
  }
  return { rows, files: found.map(({ path, bytes, oid }) => ({ path, bytes, id: oid })) }
}

/** Reports the bytes that its reader has fetched. */
function counted(file: AsyncBuffer, onBytes: (count: number) => void): AsyncBuffer {
  return {
    byteLength: file.byteLength,
    slice: async (start, end) => {
      const part = await file.slice(start, end)
      onBytes(part.byteLength)
      return part
    },
  }
}

async function readLocal(path: string, { onProgress, limits = readImportLimits() }: ReadOptions): Promise<SourceRows> {
  const file = await describeFile(path)
  if (!path.endsWith('.parquet')) return { rows: await scanRows(path), files: [file] }
  const foreign = describeNotParquet(await readStart(path))
  if (foreign !== null) throw refuseFile(path, foreign)
  const rows: LabelledRow[] = []
  let bytes = 0
  const onBytes = (count: number): void => {
    bytes += count
    onProgress?.({ files: 0, of: 1, bytes, rows: rows.length })
  }
  const buffer = counted(await asyncBufferFromFile(path), onBytes)
  await createAdding(rows, limits)({ file: buffer, name: file.path })
  return { rows, files: [file] }
}

interface AddedFile {
  file: AsyncBuffer
  /** Named in labels and messages. */
  name: string
  onRows?: () => void
}

/** Adds the rows of one Parquet file after another; the limits are those of all. */
function createAdding(rows: LabelledRow[], limits: ImportLimits): (added: AddedFile) => Promise<void> {
  let bytes = 0
  return async ({ file, name, onRows }) => {
    let number = 0
    await readParquet({
      file,
      name,
      limits,
      used: { rows: rows.length, bytes },
      onRows(read, more) {
        bytes += more
        for (const row of read) rows.push({ row, label: `${name} row ${(number += 1)}` })
        onRows?.()
      },
    })
  }
}

const ROWS = 'a file of task rows'

/** Uses the file's name without its directory, so that the same file elsewhere makes the same suite. */
async function describeFile(path: string): Promise<ImportedFile> {
  try {
    const found = await stat(path)
    // It is read twice, once for its hash; a pipe would be waited for.
    if (!found.isFile() && !found.isDirectory()) throw refuseFile(path, 'it is a pipe or a device: save it to a file')
    if (!path.endsWith('.parquet')) requireHoldable(path, found.size)
    return { path: basename(path), bytes: found.size, id: await sha256OfFile(path) }
  } catch (cause) {
    throw explainUnreadable({ path, what: ROWS }, cause)
  }
}

export interface LabelledRow {
  row: unknown
  /** Position of the row: `line 3` or `item 3`, counted from 1. */
  label: string
  /** Why there is no row. */
  broken?: LonghaulError
}

/**
 * Reads the rows of a file: a JSON array, or JSON Lines (one object per line, blank lines skipped).
 * @throws LonghaulError `Config.NotFound` if the file does not exist, `Task.Invalid` if it is not JSON
 */
export async function readRows(path: string, what = ROWS): Promise<LabelledRow[]> {
  const rows = await scanRows(path, what)
  const broken = rows.find((row) => row.broken !== undefined)?.broken
  if (broken !== undefined) throw broken
  return rows
}

/** The same for a suite, which needs at least one task. @throws LonghaulError `Config.Invalid` for a file without a row */
export async function readTaskRows(path: string): Promise<LabelledRow[]> {
  const rows = await readRows(path)
  if (rows.length > 0) return rows
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected at least one row of a task in ${path}, got none`,
  })
}

/** As `weighJson` counts: some two gigabytes of memory, and more than half a gibibyte of published rows has. */
const MOST_WEIGHT = 32_000_000

/** The same, keeping lines that are not JSON in their position. */
async function scanRows(path: string, what = ROWS): Promise<LabelledRow[]> {
  const text = (await readText(path, what)).replace(/^\uFEFF/, '')
  if (weighJson(text, MOST_WEIGHT) > MOST_WEIGHT) {
    throw refuseFile(
      path,
      'it holds too many lists, objects and elements to be read at once: split it, or save it as Parquet',
      what,
    )
  }
  if (text.trimStart().startsWith('[')) return readArray(path, text)
  const rows = text.split('\n').flatMap((line, index) => (line.trim() === '' ? [] : [readLine(path, line, index)]))
  // One error: hundreds of refused lines would hide that the file has another form.
  if (rows.length > 1 && !rows.some(({ row }) => isObject(row))) throw refuseForm(path, what, { text, rows })
  return rows
}

interface ForeignForm {
  text: string
  rows: readonly LabelledRow[]
}

function refuseForm(path: string, what: string, { text, rows }: ForeignForm): LonghaulError {
  const expected = 'expected an array, or one object on each line'
  if (isJson(text)) return refuseFile(path, `it is one JSON value over several lines: ${expected}`, what)
  const first = rows.find(({ broken }) => broken !== undefined)
  const said = first === undefined ? '' : ` (${first.label}: ${first.broken?.message.replace(/ \[[^[\]]*\]$/, '')})`
  return refuseFile(path, `no line of it is a JSON object: ${expected}${said}`, what)
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function readLine(path: string, line: string, index: number): LabelledRow {
  const label = `line ${index + 1}`
  try {
    return { row: parse(path, line, label), label }
  } catch (error) {
    if (isLonghaulError(error)) return { row: null, label, broken: error }
    throw error
  }
}

function readArray(path: string, text: string): LabelledRow[] {
  const rows = parse(path, text, 'whole file') as unknown[]
  return rows.map((row, index) => ({ row, label: `item ${index + 1}` }))
}

function parse(path: string, text: string, label: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new LonghaulError({
      code: 'Task.Invalid',
      // The parser repeats what it read.
      message: `Expected JSON, got ${oneLine(cause instanceof Error ? cause.message : String(cause))}`,
      details: { file: path, row: label },
      cause,
    })
  }
}

function requireHoldable(path: string, size: number): void {
  if (size <= constants.MAX_STRING_LENGTH) return
  const mib = Math.floor(constants.MAX_STRING_LENGTH / 1024 / 1024)
  throw refuseFile(path, `it is larger than ${mib} MiB: split it, or save it as Parquet`)
}

function refuseFile(path: string, why: string, what = ROWS): LonghaulError {
  return new LonghaulError({ code: 'Config.Invalid', message: `Expected ${what} at ${path}, but ${why}` })
}

async function readStart(path: string): Promise<Uint8Array> {
  const file = await open(path)
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(64), 0, 64, 0)
    return buffer.subarray(0, bytesRead)
  } finally {
    await file.close()
  }
}

async function readText(path: string, what: string): Promise<string> {
  try {
    requireHoldable(path, (await stat(path)).size)
    const bytes = await readFile(path)
    const foreign = describeForeign(bytes)
    if (foreign !== null) throw refuseFile(path, foreign, what)
    return decodeText(bytes)
  } catch (cause) {
    throw explainUnreadable({ path, what }, cause)
  }
}

/**
 * Describes a file of rows: its name, its hash, and the record of the import that wrote it. A record that does not list every task of
 * the file belongs to other rows and is ignored.
 */
export async function readRowsFile(path: string, tasks: readonly Task[]): Promise<RowsFile> {
  const sha256 = sha256Hex(await readFile(path))
  const record = await readImport(`${path}.suite.json`)
  const known = new Set((record?.tasks ?? []).map(({ taskId, rowHash }) => `${taskId} ${rowHash}`))
  const isOfTheseRows = tasks.every(({ taskId, rowHash }) => known.has(`${taskId} ${rowHash}`))
  return { name: basename(path), sha256, imported: isOfTheseRows ? record : null }
}

async function readImport(path: string): Promise<ImportedSuite | null> {
  try {
    const record: unknown = JSON.parse(await readFile(path, 'utf8'))
    return importedSuite.misfit(record) === null ? (record as ImportedSuite) : null
  } catch {
    return null
  }
}
