/**
 * A value of any reader as plain JSON, so that one row has one hash in every file format: 64-bit integers become
 * numbers (text where a number would round them), timestamps ISO text, typed arrays lists.
 */
export function plainValue(value: unknown): unknown {
  if (value === undefined || value === null) return null
  if (typeof value === 'bigint') return isSafe(value) ? Number(value) : value.toString()
  if (typeof value !== 'object') return value
  if (value instanceof Date) return value.toISOString()
  if (ArrayBuffer.isView(value)) return Array.from(value as Uint8Array, plainValue)
  if (Array.isArray(value)) return value.map(plainValue)
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, plainValue(entry)]))
}

function isSafe(value: bigint): boolean {
  return value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER)
}

const STRICT = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * UTF-8 as it is, with a leading byte order mark kept. Bytes that are no UTF-8 come out as lone surrogates, as Python's
 * `surrogateescape` has them: no text of a row may hold one, so that such a row is refused by the column it is in.
 */
export function decodeText(bytes: Uint8Array): string {
  try {
    return STRICT.decode(bytes)
  } catch {
    return Array.from(bytes, (byte) => String.fromCharCode(byte < 0x80 ? byte : 0xdc00 + byte)).join('')
  }
}
