import { DIGIT, pythonStrip, SPACE, spacesStart, WORD_EDGE } from './parsers/python-text.ts'
import type { StatusMap } from './parsers/status-map.ts'

const NUMBER = `${DIGIT}+(?:\\.${DIGIT}+)?`
/** Letters that Python takes for the same when case is ignored; JavaScript leaves the two i's of Turkish out. */
const S = '[sSſ]'
const I = '[iIİı]'
const MS = `[mM]${S}`
const SEC = `${S}[eE][cC]`
const UNIT = `(?:${MS}|${S})`

/** What stands between the brackets of a time. */
const DURATION = new RegExp(`^${SPACE}*${NUMBER}${SPACE}*${UNIT}${SPACE}*$`, 'u')
/** From the first blank of a run: from each of them the run would be read again. */
const IN_A_TIME = new RegExp(
  `(?<!${SPACE})${SPACE}+${I}[nN]${SPACE}+${NUMBER}${SPACE}+(?:[mM]${SEC}|${SEC})${WORD_EDGE}`,
  'gu',
)

/** The name without the time that some runners print into it: in square brackets, behind `in`, in round brackets. */
export function withoutTiming(name: string): string {
  return pythonStrip(withoutDuration(withoutDuration(name, '[', ']').replaceAll(IN_A_TIME, ''), '(', ')'))
}

/** Without a time in brackets at the end, and the blanks around it. A time holds no bracket, so the last one opens it. */
function withoutDuration(name: string, open: string, close: string): string {
  const end = spacesStart(name, name.length)
  if (name[end - 1] !== close) return name
  const start = name.lastIndexOf(open, end - 1)
  const isTime = start >= 0 && DURATION.test(name.slice(start + 1, end - 1))
  return isTime ? name.slice(0, spacesStart(name, start)) : name
}

/** Two names may become one; the later status wins then. */
export function withoutTimings(statuses: StatusMap): StatusMap {
  return new Map([...statuses].map(([name, status]) => [withoutTiming(name), status]))
}
