import { I, NUMBER, SEC, withoutDuration } from './parsers/durations.ts'
import { pythonStrip, SPACE, WORD_EDGE } from './parsers/python-text.ts'
import type { StatusMap } from './parsers/status-map.ts'

/** From the first blank of a run: from each of them the run would be read again. */
const IN_A_TIME = new RegExp(
  `(?<!${SPACE})${SPACE}+${I}[nN]${SPACE}+${NUMBER}${SPACE}+(?:[mM]${SEC}|${SEC})${WORD_EDGE}`,
  'gu',
)

/** The name without the time that some runners print into it: in square brackets, behind `in`, in round brackets. */
export function withoutTiming(name: string): string {
  return pythonStrip(withoutDuration(withoutDuration(name, '[', ']').replaceAll(IN_A_TIME, ''), '(', ')'))
}

/** Two names may become one; the later status wins then. */
export function withoutTimings(statuses: StatusMap): StatusMap {
  return new Map([...statuses].map(([name, status]) => [withoutTiming(name), status]))
}
