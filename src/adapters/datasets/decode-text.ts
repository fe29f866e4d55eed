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
