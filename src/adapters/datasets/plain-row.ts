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
