import { universalNewlines } from './parsers/python-text.ts'

export const START_MARKER = '>>>>> Start Test Output'
export const END_MARKER = '>>>>> End Test Output'

/** Any of these in the log makes it void. */
const BAD_CODES = [
  '>>>>> Patch Apply Failed',
  '>>>>> Reset Failed',
  '>>>>> Tests Errored',
  '>>>>> Tests Timed Out',
] as const

/** `strict`: one invalid byte is an error of the instance, not a failed test. */
export type LogDecoding = 'strict' | 'replace'

/** The decoded log with LF as its only line end; null if strict decoding fails. */
export function decodeLog(log: Uint8Array, decoding: LogDecoding): string | null {
  try {
    return universalNewlines(new TextDecoder('utf-8', { fatal: decoding === 'strict', ignoreBOM: true }).decode(log))
  } catch {
    return null
  }
}

/**
 * The part of the log that the tests wrote: from the first start marker to the next start or end marker. Null if the log is void or
 * lacks a marker. As upstream has it, the order of the markers is not checked.
 */
export function sliceLog(text: string): string | null {
  const isVoid = BAD_CODES.some((code) => text.includes(code))
  if (isVoid || !text.includes(START_MARKER) || !text.includes(END_MARKER)) return null
  const afterStart = text.split(START_MARKER)[1] ?? ''
  return afterStart.split(END_MARKER)[0] ?? ''
}
