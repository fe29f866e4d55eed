import { DIGIT, pythonStrip, SPACE, WORD_EDGE } from './parsers/python-text.ts'
import type { StatusMap } from './parsers/status-map.ts'

const NUMBER = `${DIGIT}+(?:\\.${DIGIT}+)?`
/** Letters that Python takes for the same when case is ignored; JavaScript leaves the two i's of Turkish out. */
const S = '[sSſ]'
const I = '[iIİı]'
const MS = `[mM]${S}`
const SEC = `${S}[eE][cC]`
const UNIT = `(?:${MS}|${S})`

/** A time in square brackets, `in` a time, a time in round brackets. */
const TIMINGS = [
  new RegExp(`${SPACE}*\\[${SPACE}*${NUMBER}${SPACE}*${UNIT}${SPACE}*\\]${SPACE}*$`, 'gu'),
  new RegExp(`${SPACE}+${I}[nN]${SPACE}+${NUMBER}${SPACE}+(?:[mM]${SEC}|${SEC})${WORD_EDGE}`, 'gu'),
  new RegExp(`${SPACE}*\\(${SPACE}*${NUMBER}${SPACE}*${UNIT}${SPACE}*\\)${SPACE}*$`, 'gu'),
]

/** The name without the time that some runners print into it. */
export function withoutTiming(name: string): string {
  return pythonStrip(TIMINGS.reduce((text, pattern) => text.replaceAll(pattern, ''), name))
}

/** Two names may become one; the later status wins then. */
export function withoutTimings(statuses: StatusMap): StatusMap {
  return new Map([...statuses].map(([name, status]) => [withoutTiming(name), status]))
}
