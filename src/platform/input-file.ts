import { constants } from 'node:buffer'
import { createReadStream } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { LonghaulError } from '../contracts/errors.ts'
import { errnoOf } from './files.ts'

export interface InputFile {
  path: string
  /** What the file should be, with its article: `a recipe file`. */
  what: string
  /** @default the longest text that Node can hold */
  maxBytes?: number
}

/**
 * Reads a text file that the user named, or a pipe such as `<(…)`. A byte order mark is left out.
 * @throws LonghaulError `Config.NotFound` where there is none, `Config.Invalid` for a directory and for content that is no text; the
 *   message says which
 */
export async function readInputFile(file: InputFile): Promise<string> {
  const bytes = await readBytes(file)
  // `readFile(path, 'utf8')` would replace invalid UTF-8, and Longhaul would check, hash and store another text.
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (cause) {
    const isUtf16 = (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff)
    throw refuse(file, isUtf16 ? 'it is UTF-16; save it as UTF-8' : 'it is not UTF-8 text', cause)
  }
}

async function readBytes(file: InputFile): Promise<Uint8Array> {
  const { path, maxBytes = constants.MAX_STRING_LENGTH } = file
  const chunks: Uint8Array[] = []
  let size = 0
  try {
    for await (const chunk of createReadStream(path) as AsyncIterable<Uint8Array>) {
      size += chunk.length
      // A device has no end, and `stat` reports no size for a pipe.
      if (size > maxBytes) throw refuse(file, `it is larger than ${Math.floor(maxBytes / 1024 / 1024)} MiB`)
      chunks.push(chunk)
    }
  } catch (cause) {
    throw explainUnreadable(file, cause)
  }
  return Buffer.concat(chunks)
}

/** Opens a file that the user named. A directory could be opened and would only fail when read. @throws LonghaulError as `readInputFile` */
export async function openInputFile(file: InputFile): Promise<FileHandle> {
  const handle = await open(file.path).catch((cause: unknown) => {
    throw explainUnreadable(file, cause)
  })
  if (!(await handle.stat()).isDirectory()) return handle
  await handle.close()
  throw refuse(file, IS_DIRECTORY)
}

/** Converts the error of reading a file that the user named; returns any other error unchanged. */
export function explainUnreadable(file: InputFile, cause: unknown): unknown {
  const errno = errnoOf(cause)
  if (errno === null || cause instanceof LonghaulError) return cause
  return refuse(file, REASONS[errno] ?? `it cannot be read (${errno})`, cause)
}

const IS_DIRECTORY = 'it is a directory'

const REASONS: Partial<Record<string, string>> = {
  ENOENT: 'there is no such file',
  ENOTDIR: 'there is no such file',
  EISDIR: IS_DIRECTORY,
  EACCES: 'this user may not read it',
  ELOOP: 'its symbolic links form a circle',
}

function refuse({ path, what }: InputFile, reason: string, cause?: unknown): LonghaulError {
  const code = reason === REASONS['ENOENT'] ? 'Config.NotFound' : 'Config.Invalid'
  return new LonghaulError({ code, message: `Expected ${what} at ${path}: ${reason}`, cause })
}
