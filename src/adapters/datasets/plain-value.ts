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

/** Bytes of a piece that is decoded byte by byte: such a text of a whole file would need thirty times its size. */
const PIECE_BYTES = 64 * 1024
const NEW_LINE = 0x0a

/**
 * UTF-8 as it is, with a leading byte order mark kept. Bytes that are no UTF-8 come out as lone surrogates, as Python's
 * `surrogateescape` has them: no text of a row may hold one, so that such a row is refused by the column it is in. The lines before and
 * after it keep their text.
 */
export function decodeText(bytes: Uint8Array): string {
  try {
    return STRICT.decode(bytes)
  } catch {
    return decodeLines(bytes)
  }
}

function decodeLines(bytes: Uint8Array): string {
  const lines: string[] = []
  for (let start = 0; start < bytes.length; ) {
    const found = bytes.indexOf(NEW_LINE, start)
    const end = found === -1 ? bytes.length : found + 1
    const line = bytes.subarray(start, end)
    try {
      lines.push(STRICT.decode(line))
    } catch {
      lines.push(decodeBytes(line))
    }
    start = end
  }
  return lines.join('')
}

function decodeBytes(bytes: Uint8Array): string {
  const pieces: string[] = []
  for (let start = 0; start < bytes.length; start += PIECE_BYTES) {
    const length = Math.min(PIECE_BYTES, bytes.length - start)
    const piece = new Uint16Array(length)
    for (let at = 0; at < length; at++) {
      const byte = bytes[start + at] ?? 0
      piece[at] = byte < 0x80 ? byte : 0xdc00 + byte
    }
    pieces.push(Buffer.from(piece.buffer).toString('utf16le'))
  }
  return pieces.join('')
}
