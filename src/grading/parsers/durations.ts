/** Durations that runners print at the end of a name. */
import { DIGIT, pythonStrip, SPACE, spacesStart } from './python-text.ts'

export const NUMBER = `${DIGIT}+(?:\\.${DIGIT}+)?`
/** Letters that Python's IGNORECASE treats as equal; JavaScript leaves out the two Turkish i's. */
const S = '[sSſ]'
export const I = '[iIİı]'
const MS = `[mM]${S}`
export const SEC = `${S}[eE][cC]`
const UNIT = `(?:${MS}|${S})`

/** The text between the brackets of a duration. */
const DURATION = new RegExp(`^${SPACE}*${NUMBER}${SPACE}*${UNIT}${SPACE}*$`, 'u')

/** Removes a duration in brackets at the end, and the whitespace around it. A duration contains no bracket, so the last opening one
 *  starts it. */
export function withoutDuration(name: string, open: string, close: string): string {
  const end = spacesStart(name, name.length)
  if (name[end - 1] !== close) return name
  const start = name.lastIndexOf(open, end - 1)
  const isTime = start >= 0 && DURATION.test(name.slice(start + 1, end - 1))
  return isTime ? name.slice(0, spacesStart(name, start)) : name
}

/** With either bracket, both or none; the number starts at its first digit, even right after a word. */
const BARE_DURATION = new RegExp(
  `(?<!${SPACE})${SPACE}*(?:\\(${SPACE}*)?(?<!${DIGIT})${NUMBER}${SPACE}*${UNIT}(?:${SPACE}*\\))?${SPACE}*$`,
  'u',
)

/** As the parsers of JavaScript runners do: `adds (53ms)`, `adds 53 ms` and `adds53ms` become `adds`. */
export function withoutBareDuration(name: string): string {
  return pythonStrip(name.replace(BARE_DURATION, ''))
}
