import { createHash } from 'node:crypto'

export interface IndexEntry {
  path: string
  /** Blob id, hexadecimal. */
  id: string
  size: number
}

const FIXED_BYTES = 62
const REGULAR_FILE = 0o100644

/**
 * `.git/index`, version 2. Times and inode stay zero: Git then compares contents once and finds the files unchanged
 * on any file system. Sizes must be right: Git takes a different size for a change without reading the file.
 */
export function indexFile(entries: IndexEntry[]): Uint8Array {
  const header = Buffer.alloc(12)
  header.write('DIRC', 'ascii')
  header.writeUInt32BE(2, 4)
  header.writeUInt32BE(entries.length, 8)
  const sorted = entries.toSorted((left, right) => Buffer.compare(Buffer.from(left.path), Buffer.from(right.path)))
  const body = Buffer.concat([header, ...sorted.map(entryBytes)])
  return Buffer.concat([body, createHash('sha1').update(body).digest()])
}

function entryBytes({ path, id, size }: IndexEntry): Buffer {
  const name = Buffer.from(path)
  // One to eight zero bytes, so that the name is terminated and the next entry is aligned.
  const length = Math.floor((FIXED_BYTES + name.length + 8) / 8) * 8
  const entry = Buffer.alloc(length)
  entry.writeUInt32BE(REGULAR_FILE, 24)
  entry.writeUInt32BE(size, 36)
  entry.write(id, 40, 'hex')
  entry.writeUInt16BE(Math.min(name.length, 0xfff), 60)
  name.copy(entry, FIXED_BYTES)
  return entry
}
