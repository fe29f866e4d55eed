/** Tables of logs with the statuses that a parser must find. */
import assert from 'node:assert/strict'
import { PythonError, type PythonErrorType } from '../../src/grading/parsers/python-text.ts'
import type { LogParser } from '../../src/grading/parsers/status-map.ts'

type LogRow = readonly [lines: readonly string[], statuses: Readonly<Record<string, string>>]

/** Shown characters of a long log in a failure. */
const SHOWN = 400

export function expectStatuses(parse: LogParser, rows: readonly LogRow[]): void {
  for (const [lines, statuses] of rows) {
    const log = lines.join('\n')
    assert.deepEqual(Object.fromEntries(parse(log)), statuses, log.slice(0, SHOWN))
  }
}

/** Upstream raises on such a log, so the task has no verdict. */
export function expectRaised(type: PythonErrorType, parse: LogParser, ...lines: readonly string[]): void {
  const log = lines.join('\n')
  assert.throws(
    () => parse(log),
    (error) => error instanceof PythonError && error.message.startsWith(`${type}:`),
    log.slice(0, SHOWN),
  )
}
