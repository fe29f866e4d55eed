import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'

/** SHA-256 as lower-case hex; injected into the pure rules of `domain`, which know no node built-ins. */
export function sha256Hex(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('hex')
}

/** Whether a text is written as `sha256Hex` writes one. */
export function isSha256Hex(text: string): boolean {
  return /^[0-9a-f]{64}$/.test(text)
}

/** Of several parts, each closed by a NUL: moving text from one part to the next changes the hash. */
export function sha256OfParts(...parts: (string | Uint8Array)[]): string {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(part).update('\0')
  return hash.digest('hex')
}

/** Of a file of any size. */
export async function sha256OfFile(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex')
}

/** SHA-256 of a JSON value with sorted keys: the hash does not depend on the writer's order of keys. */
export function canonicalHash(value: unknown): string {
  return sha256Hex(JSON.stringify(sortKeys(value)) ?? 'null')
}

function sortKeys(value: unknown): unknown {
  if (typeof value === 'bigint') return value.toString()
  if (typeof value !== 'object' || value === null || value instanceof Date) return value
  if (Array.isArray(value)) return value.map(sortKeys)
  const entries = Object.entries(value).toSorted(([left], [right]) => (left < right ? -1 : 1))
  return Object.fromEntries(entries.map(([key, entry]) => [key, sortKeys(entry)]))
}
