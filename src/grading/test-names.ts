import { I, NUMBER, SEC, withoutDuration } from './parsers/durations.ts'
import { pythonStrip, SPACE, WORD_EDGE } from './parsers/python-text.ts'
import type { StatusMap } from './parsers/status-map.ts'

/** Matches at the first whitespace of a run only; from every character the run would be read again. */
const IN_A_TIME = new RegExp(
  `(?<!${SPACE})${SPACE}+${I}[nN]${SPACE}+${NUMBER}${SPACE}+(?:[mM]${SEC}|${SEC})${WORD_EDGE}`,
  'gu',
)

/** Removes the times that some runners print into a name: in square brackets, after `in`, in round brackets. */
export function withoutTiming(name: string): string {
  return pythonStrip(withoutDuration(withoutDuration(name, '[', ']').replaceAll(IN_A_TIME, ''), '(', ')'))
}

/** Two names may become equal; the later status wins. */
export function withoutTimings(statuses: StatusMap): StatusMap {
  return new Map([...statuses].map(([name, status]) => [withoutTiming(name), status]))
}
