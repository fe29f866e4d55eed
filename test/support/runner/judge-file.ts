/** Judges one test file by the events of its runner and the end of its process. Pure. */

import { printEvent } from './print-event.ts'
import { type FileJudgement, type Failure, type Skip, WHOLE_FILE } from './file-result.ts'

const LAST_CHARACTERS = 1_000

/** One line of `event-lines.ts`. */
export type FileEvent =
  | ({ type: 'pass' } & EndedTest)
  | ({ type: 'fail'; failureType: string; error: string } & EndedTest)
  /** Written by the file's own process after its last test and hook; absent if that process ended earlier. */
  | { type: 'summary'; success: boolean; passed: number }
  /** CPU time of all its processes, after the last event of a test; absent if the system does not report it. */
  | { type: 'cpu'; seconds: number }
  | { type: 'note'; text: string; nesting: number }
  | { type: 'output'; text: string }

interface EndedTest {
  name: string
  nesting: number
  isSuite: boolean
  ms: number
  skip?: string | boolean
  todo?: string | boolean
}

/** The end of the process: a status, a signal, or the time limit at which it was killed. */
export interface FileEnd {
  exitCode: number | null
  signal: string | null
  timedOutAfterS: number | null
  /** Lines on stdout that are no events, because the runner itself failed. */
  strayLines: string[]
}

/**
 * Counts passed tests and collects everything that went wrong. A file that ends early has no summary; a failure of a suite, a hook or
 * a late promise shows in an event, in `success` or in the exit status. Each of these alone is a failure.
 */
export function judgeFile({ events, end }: { events: readonly FileEvent[]; end: FileEnd }): FileJudgement {
  const summary = events.findLast((event) => event.type === 'summary')
  const failures = failuresOf(events)
  const skips = events.flatMap((event): Skip[] => {
    if (event.type !== 'pass') return []
    const reason = event.skip ?? event.todo
    if (reason === undefined) return []
    const kind = event.skip === undefined ? 'todo' : 'skip'
    return [{ test: event.name, reason: typeof reason === 'string' ? reason : `${kind} without a reason` }]
  })
  const passed = events.filter(
    (event) => event.type === 'pass' && !event.isSuite && event.skip === undefined && event.todo === undefined,
  ).length
  const wrong = (error: string): void => void failures.push({ test: WHOLE_FILE, error })

  if (end.timedOutAfterS !== null)
    wrong(`did not end within ${end.timedOutAfterS} s and was killed; its last words: ${lastWords(events) || 'none'}`)
  if (end.signal !== null && end.timedOutAfterS === null) wrong(`its runner was ended by ${end.signal}`)
  for (const line of end.strayLines.slice(0, 20)) wrong(`its runner wrote: ${line}`)
  if (summary === undefined) {
    // Node then reports only a pass with the file's own name.
    if (failures.length === 0) wrong('ended before its tests had, or has none: no summary came from its process')
    return { passed: 0, failures, skips }
  }
  if (passed + skips.length + failures.length === 0) wrong('has no test')
  if (summary.passed !== passed) wrong(`counted ${summary.passed} passed tests, ${passed} were seen`)
  if (failures.length === 0 && !summary.success) wrong('its process says that something failed')
  if (failures.length === 0 && end.exitCode !== 0) wrong(`ended with ${end.exitCode} after its tests had passed`)
  return { passed, failures, skips }
}

/** The last output of a file, which is far above the summary of a whole run. */
function lastWords(events: readonly FileEvent[]): string {
  return events.map(printEvent).join('').trim().slice(-LAST_CHARACTERS)
}

/** A suite that failed only because of a test in it is counted by that test. */
function failuresOf(events: readonly FileEvent[]): Failure[] {
  const failed = events.filter((event) => event.type === 'fail')
  const own = failed.filter(({ failureType }) => failureType !== 'subtestsFailed')
  const counted = own.length > 0 ? own : failed
  return counted.map(({ name, error, todo }) => ({
    test: name,
    error: `${todo === undefined ? '' : 'is marked todo and fails: '}${error}`,
  }))
}
