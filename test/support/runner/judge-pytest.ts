/** Judges a pytest session by the events of `pytest_events.py` and the end of its process. Pure. */
import type { FileResult } from './file-result.ts'

export type PytestEvent =
  | { type: 'collected'; tests: string[] }
  /** A test that a marker deselected, or a whole module that skipped itself. */
  | { type: 'deselected' | 'unread'; test: string; reason: string }
  | { type: 'failed'; test: string; when: string; error: string; seconds?: number }
  | { type: 'skipped'; test: string; when: string; reason: string; seconds: number }
  | { type: 'passed'; test: string; when: string; seconds: number }
  | { type: 'end'; status: number }

export interface PytestEnd {
  exitCode: number | null
  timedOut: boolean
  /** The last lines of its output. */
  tail: string
}

/** For failures that belong to no test. */
const SESSION = '(pytest)'

/**
 * One result per test file. A test passed if its set-up, body and tear-down passed. A collected test without a tear-down did not
 * finish, regardless of the exit status.
 */
export function judgePytest({ events, end }: { events: readonly PytestEvent[]; end: PytestEnd }): FileResult[] {
  const results = new Map<string, FileResult>()
  const resultOf = (test: string): FileResult => {
    const file = test === SESSION ? SESSION : `trainer/${test.split('::')[0]?.replace(/^trainer\//, '')}`
    const result = results.get(file) ?? { file, seconds: 0, passed: 0, failures: [], skips: [] }
    results.set(file, result)
    return result
  }
  const fail = (test: string, error: string): void => void resultOf(test).failures.push({ test: nameOf(test), error })

  const finished = new Set<string>()
  const notPassed = new Set<string>()
  for (const event of events) {
    if ('seconds' in event) resultOf(event.test).seconds += event.seconds ?? 0
    if ('when' in event && event.when === 'teardown') finished.add(event.test)
    if (event.type === 'failed') fail(event.test, event.when === 'call' ? event.error : `${event.when}: ${event.error}`)
    if (event.type === 'failed' || event.type === 'skipped') notPassed.add(event.test)
    if (event.type === 'skipped' || event.type === 'deselected' || event.type === 'unread') {
      resultOf(event.test).skips.push({ test: nameOf(event.test), reason: event.reason })
    }
  }
  const collected = events.flatMap((event) => (event.type === 'collected' ? event.tests : []))
  for (const test of collected) {
    if (!finished.has(test)) fail(test, 'did not finish: its session ended earlier')
    else if (!notPassed.has(test)) resultOf(test).passed += 1
  }

  const last = events.at(-1)
  const hasFailed = (): boolean => [...results.values()].some(({ failures }) => failures.length > 0)
  if (end.timedOut) fail(SESSION, 'did not end in time and was killed')
  if (last?.type !== 'end')
    fail(SESSION, `ended before its session had, with ${end.exitCode}: ${end.tail.trim().split('\n').at(-1)}`)
  if (collected.length === 0) fail(SESSION, 'collected no test')
  if (end.exitCode !== 0 && !hasFailed()) fail(SESSION, `ended with ${end.exitCode} after its tests had passed`)
  return [...results.values()]
}

function nameOf(test: string): string {
  return test.split('::').slice(1).join('::') || test
}
