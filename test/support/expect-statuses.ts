/** Tables of logs and of what a parser has to find in them. */
import assert from 'node:assert/strict'
import { PythonError, type PythonErrorType } from '../../src/grading/parsers/python-text.ts'
import type { LogParser } from '../../src/grading/parsers/status-map.ts'

type LogRow = readonly [lines: readonly string[], statuses: Readonly<Record<string, string>>]

/** How much of a long log a failure shows. */
const SHOWN = 400

export function expectStatuses(parse: LogParser, rows: readonly LogRow[]): void {
  for (const [lines, statuses] of rows) {
    const log = lines.join('\n')
    assert.deepEqual(Object.fromEntries(parse(log)), statuses, log.slice(0, SHOWN))
  }
}

/** Upstream raises there, so the task has no verdict. */
export function expectRaised(type: PythonErrorType, parse: LogParser, ...lines: readonly string[]): void {
  const log = lines.join('\n')
  assert.throws(
    () => parse(log),
    (error) => error instanceof PythonError && error.message.startsWith(`${type}:`),
    log.slice(0, SHOWN),
  )
}
