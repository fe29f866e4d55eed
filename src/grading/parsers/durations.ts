/** Times that runners print at the end of a name. */
import { DIGIT, pythonStrip, SPACE, spacesStart } from './python-text.ts'

export const NUMBER = `${DIGIT}+(?:\\.${DIGIT}+)?`
/** Letters that Python takes for the same when case is ignored; JavaScript leaves the two i's of Turkish out. */
const S = '[sSſ]'
export const I = '[iIİı]'
const MS = `[mM]${S}`
export const SEC = `${S}[eE][cC]`
const UNIT = `(?:${MS}|${S})`

/** What stands between the brackets of a time. */
const DURATION = new RegExp(`^${SPACE}*${NUMBER}${SPACE}*${UNIT}${SPACE}*$`, 'u')

/** Without a time in brackets at the end, and the blanks around it. A time holds no bracket, so the last one opens it. */
export function withoutDuration(name: string, open: string, close: string): string {
  const end = spacesStart(name, name.length)
  if (name[end - 1] !== close) return name
  const start = name.lastIndexOf(open, end - 1)
  const isTime = start >= 0 && DURATION.test(name.slice(start + 1, end - 1))
  return isTime ? name.slice(0, spacesStart(name, start)) : name
}

/** With either bracket, both or none; a number counts from its first digit, also one that ends a word. */
const BARE_DURATION = new RegExp(
  `(?<!${SPACE})${SPACE}*(?:\\(${SPACE}*)?(?<!${DIGIT})${NUMBER}${SPACE}*${UNIT}(?:${SPACE}*\\))?${SPACE}*$`,
  'u',
)

/** As the parsers of JavaScript runners do it: `adds (53ms)`, `adds 53 ms` and `adds53ms` are `adds`. */
export function withoutBareDuration(name: string): string {
  return pythonStrip(name.replace(BARE_DURATION, ''))
}
