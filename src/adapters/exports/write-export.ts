/** Writes files atomically, and replaces existing ones only on request. */
import { createHash, randomUUID } from 'node:crypto'
import { type FileHandle, link, lstat, mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { LonghaulError } from '../../contracts/errors.ts'
import { errnoOf, exists, makeDirectory, syncPath } from '../../platform/files.ts'

export interface ExportSink {
  write(data: string | Uint8Array): Promise<void>
}

export interface WrittenFile {
  bytes: number
  sha256: string
}

export interface ExportPlace {
  path: string
  /** Whether an older export is replaced. */
  force: boolean
}

/** Text is buffered up to this size before a write. */
const BUFFER_CHARS = 1 << 18

/** @throws LonghaulError `Config.Invalid` if the path is taken */
export async function writeExportFile(
  { path, force }: ExportPlace,
  write: (sink: ExportSink) => Promise<void>,
): Promise<WrittenFile> {
  const target = resolve(path)
  await requireFree(target, { force, kind: 'file' })
  const temporary = await temporaryBeside(target)
  try {
    const written = await writeSynced(temporary, write)
    await place(temporary, target, force)
    await syncPath(dirname(target))
    return written
  } finally {
    await rm(temporary, { force: true })
  }
}

export interface ExportDirectory {
  /** @param name path relative to the directory */
  write(name: string, write: (sink: ExportSink) => Promise<void>): Promise<WrittenFile>
}

/** Written last into every exported directory. A directory without it may not be replaced. */
const MARK = 'export.json'
/** In the format of `sha256sum -c`. */
const SUMS = 'SHA256SUMS'

export interface WrittenDirectory {
  /** Number of files, without the two that every exported directory has. */
  files: number
  bytes: number
  /** Hash of `SHA256SUMS`, which covers everything in it. */
  sha256: string
}

/**
 * Writes a new directory of files. `fill` returns the content of `export.json`.
 * @throws LonghaulError `Config.Invalid` if the path is taken
 */
export async function writeExportDirectory(
  { path, force }: ExportPlace,
  fill: (directory: ExportDirectory) => Promise<object>,
): Promise<WrittenDirectory> {
  const target = resolve(path)
  await requireFree(target, { force, kind: 'directory' })
  const temporary = await temporaryBeside(target)
  await mkdir(temporary)
  try {
    const sums: string[] = []
    let bytes = 0
    const write: ExportDirectory['write'] = async (name, write) => {
      const file = join(temporary, name)
      await makeDirectory(dirname(file))
      return writeSynced(file, write)
    }
    const mark = await fill({
      async write(name, content) {
        const written = await write(name, content)
        sums.push(`${written.sha256}  ${name}\n`)
        bytes += written.bytes
        return written
      },
    })
    const { sha256 } = await write(SUMS, (sink) => sink.write(sums.join('')))
    await write(MARK, (sink) => sink.write(`${JSON.stringify(mark, null, 2)}\n`))
    await placeDirectory(temporary, target, force)
    await syncPath(dirname(target))
    return { files: sums.length, bytes, sha256 }
  } finally {
    await rm(temporary, { recursive: true, force: true })
  }
}

async function requireFree(
  target: string,
  { force, kind }: { force: boolean; kind: 'file' | 'directory' },
): Promise<void> {
  const found = await lstat(target).catch(ifAbsent)
  if (found === null) return
  if (kind === 'file') {
    // A link, a device or a directory is not an older export.
    if (!found.isFile()) throw taken(`Expected --out to name a new file; ${target} exists and is not a regular file`)
    if (!force) throw taken(`${target} exists; --force replaces it`)
    return
  }
  if (!found.isDirectory())
    throw taken(`Expected --out to name a new directory; ${target} exists and is not a directory`)
  if ((await readdir(target)).length === 0) return
  if (!(await exists(join(target, MARK))))
    throw taken(`${target} is not empty and was not made by an export (it has no ${MARK}); name another`)
  if (!force) throw taken(`${target} exists; --force replaces it`)
}

/** Lies in the same file system, so that it can be renamed. */
async function temporaryBeside(target: string): Promise<string> {
  await makeDirectory(dirname(target))
  return join(dirname(target), `.${basename(target).slice(0, 100)}.${randomUUID()}.partial`)
}

async function writeSynced(path: string, write: (sink: ExportSink) => Promise<void>): Promise<WrittenFile> {
  const handle = await open(path, 'wx')
  try {
    const { sink, close } = createSink(handle)
    await write(sink)
    const written = await close()
    await handle.sync()
    return written
  } finally {
    await handle.close()
  }
}

function createSink(handle: FileHandle): { sink: ExportSink; close(): Promise<WrittenFile> } {
  const hash = createHash('sha256')
  let bytes = 0
  let text = ''
  const append = async (data: Uint8Array): Promise<void> => {
    if (data.length === 0) return
    hash.update(data)
    bytes += data.length
    await handle.appendFile(data)
  }
  const flush = (): Promise<void> => {
    // A lone surrogate has no UTF-8 encoding, so the encoder writes the replacement character.
    const data = Buffer.from(text)
    text = ''
    return append(data)
  }
  return {
    sink: {
      async write(data) {
        if (typeof data === 'string') {
          text += data
          if (text.length >= BUFFER_CHARS) await flush()
        } else {
          await flush()
          await append(data)
        }
      },
    },
    async close() {
      await flush()
      return { bytes, sha256: hash.digest('hex') }
    },
  }
}

/** A file that another process created meanwhile is kept, unless it may be replaced. */
async function place(temporary: string, target: string, force: boolean): Promise<void> {
  if (force) return rename(temporary, target)
  try {
    await link(temporary, target)
  } catch (error) {
    const errno = errnoOf(error)
    if (errno === 'EEXIST') throw taken(`${target} exists; --force replaces it`)
    // For file systems without hard links.
    if (errno !== 'EPERM' && errno !== 'ENOTSUP' && errno !== 'EOPNOTSUPP' && errno !== 'ENOSYS') throw error
    if (await exists(target)) throw taken(`${target} exists; --force replaces it`)
    await rename(temporary, target)
  }
}

/** Not every system can exchange directories atomically. The older one is renamed first, and removed once the new one is in place. */
async function placeDirectory(temporary: string, target: string, force: boolean): Promise<void> {
  try {
    // Succeeds if nothing or an empty directory is there.
    await rename(temporary, target)
    return
  } catch (error) {
    const errno = errnoOf(error)
    if (errno !== 'ENOTEMPTY' && errno !== 'EEXIST') throw error
    if (!force) throw taken(`${target} exists; --force replaces it`)
  }
  const aside = await temporaryBeside(target)
  await rename(target, aside)
  try {
    await rename(temporary, target)
  } catch (error) {
    await rename(aside, target)
    throw error
  }
  await rm(aside, { recursive: true, force: true })
}

function ifAbsent(error: unknown): null {
  if (errnoOf(error) === 'ENOENT') return null
  throw error
}

function taken(message: string): LonghaulError {
  return new LonghaulError({ code: 'Config.Invalid', message })
}
