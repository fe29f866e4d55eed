export interface OutputInput {
  /** First bytes of the output. */
  head: Uint8Array
  /** Last bytes; empty when nothing was left out between. */
  tail: Uint8Array
  omittedBytes: number
  /** UTF-16 code units of output that may be shown, notice not counted. */
  maxChars: number
}

/**
 * Output as the policy sees it: head and tail kept, the middle marked. Bytes are cut on character boundaries, invalid ones
 * become U+FFFD, trailing line breaks go (the prompt line brings its own blank line).
 */
export function shortenOutput({ head, tail, omittedBytes, maxChars }: OutputInput): string {
  const first = omittedBytes === 0 ? '' : decodeHead(head)
  const last = omittedBytes === 0 ? decode(join(head, tail)) : decodeTail(tail)
  const whole = trimEnd(first + last)
  if (omittedBytes === 0 && whole.length <= maxChars) return whole

  const headChars = Math.ceil(maxChars / 2)
  const tailChars = Math.floor(maxChars / 2)
  const kept = omittedBytes === 0 ? { first: whole, last: whole } : { first, last: trimEnd(last) }
  const shownHead = kept.first.slice(0, headChars).toWellFormed()
  const shownTail = kept.last.slice(Math.max(0, kept.last.length - tailChars)).toWellFormed()
  const cut = omittedBytes + whole.length - shownHead.length - shownTail.length
  return `${trimEnd(shownHead)}\n${omittedNotice(cut)}\n${shownTail}`
}

/** Bytes and characters are added up, hence "about". */
function omittedNotice(count: number): string {
  return `[... about ${count} characters left out here: write to a file or filter to see less ...]`
}

function decode(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)
}

/** Streaming mode holds back a character that the cut split. */
function decodeHead(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes, { stream: true })
}

function decodeTail(bytes: Uint8Array): string {
  const isContinuation = (byte: number | undefined): boolean => byte !== undefined && (byte & 0xc0) === 0x80
  let start = 0
  while (start < 3 && isContinuation(bytes[start])) start += 1
  return decode(bytes.subarray(start))
}

function join(head: Uint8Array, tail: Uint8Array): Uint8Array {
  const all = new Uint8Array(head.length + tail.length)
  all.set(head)
  all.set(tail, head.length)
  return all
}

function trimEnd(text: string): string {
  let end = text.length
  while (text[end - 1] === '\n') end -= 1
  return text.slice(0, end)
}
