import { universalNewlines } from './parsers/python-text.ts'
import { END_MARKER, START_MARKER } from './profiles/fork-4.0.3.ts'

/** Any of these anywhere in the log voids it. */
const BAD_CODES = [
  '>>>>> Patch Apply Failed',
  '>>>>> Reset Failed',
  '>>>>> Tests Errored',
  '>>>>> Tests Timed Out',
] as const

export type LogSlice = { kind: 'found'; text: string } | { kind: 'not-found' } | { kind: 'undecodable' }

/** The part of the log that the tests wrote: after the first start marker, up to a second start or the first end. */
export function sliceLog(log: Uint8Array): LogSlice {
  const decoded = decodeStrictly(log)
  if (decoded === null) return { kind: 'undecodable' }
  const text = universalNewlines(decoded)
  const isVoid = BAD_CODES.some((code) => text.includes(code))
  if (isVoid || !text.includes(START_MARKER) || !text.includes(END_MARKER)) return { kind: 'not-found' }
  const afterStart = text.split(START_MARKER)[1] ?? ''
  return { kind: 'found', text: afterStart.split(END_MARKER)[0] ?? '' }
}

/** Upstream reads the file strictly: one invalid byte is an error of the instance, not a failed test. */
function decodeStrictly(log: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(log)
  } catch {
    return null
  }
}
