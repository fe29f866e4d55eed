import type { GateRecord } from '../contracts/gates.types.ts'
import type { Task } from '../contracts/tasks.types.ts'
import { missedNameLines } from '../domain/gates/suite-filters.ts'
import { gradeLog } from './grade-log.ts'
import { LOG_PROFILES } from './log-profiles.ts'
import { withoutTiming } from './test-names.ts'

type GatedTask = Pick<Task, 'gradingProfile' | 'installConfig' | 'failToPass' | 'passToPass'>

/** What a gate stores of a log besides its verdict. */
export function readGateLog(
  task: GatedTask,
  log: Uint8Array,
): Pick<GateRecord, 'notPassed' | 'exceptions' | 'missedNames'> {
  const text = Buffer.from(log).toString()
  return { notPassed: notPassed(task, log), exceptions: exceptionsIn(text), missedNames: missedNameLines(text) }
}

function notPassed({ gradingProfile, installConfig, failToPass, passToPass }: GatedTask, log: Uint8Array) {
  const graded = gradeLog({
    profile: LOG_PROFILES[gradingProfile],
    parser: installConfig.logParser,
    log,
    tests: { failToPass, passToPass },
  })
  const statuses = graded.kind === 'graded' ? graded.statuses : new Map<string, string>()
  const missing = new Map<string, string>()
  for (const test of [...failToPass, ...passToPass]) {
    const status = statuses.get(test) ?? statuses.get(withoutTiming(test)) ?? 'MISSING'
    if (status !== 'PASSED') missing.set(test, status)
  }
  // A test may be called __proto__, and an assignment to that key would be lost.
  return Object.fromEntries(missing)
}

const NAME = '(?:[A-Za-z_]\\w*\\.)*[A-Za-z_]\\w*(?:Error|Exception|Interrupt|Exit|Warning|Timeout)'

/** The last line of a traceback, bare or after pytest's `E`. */
const LINE = new RegExp(`^(?:E {1,8})?(${NAME})(?::|$)`)

/** The line in which pytest reports file, line number and exception of a failed test. */
const PLACE = new RegExp(`^\\S+:\\d+: (${NAME})$`)

/**
 * Counts the tracebacks in a test log by exception name, without modules. pytest prints some exceptions both as a traceback and as a
 * place, and a bare assertion only as a place: the greater count is used.
 */
export function exceptionsIn(log: string): Record<string, number> {
  const lines = log.split('\n').map((line) => line.trimEnd())
  const [raised, placed] = [LINE, PLACE].map((pattern) => countNames(lines, pattern)) as [Counts, Counts]
  const names = [...new Set([...raised.keys(), ...placed.keys()])]
  return Object.fromEntries(names.map((name) => [name, Math.max(raised.get(name) ?? 0, placed.get(name) ?? 0)]))
}

type Counts = Map<string, number>

function countNames(lines: readonly string[], pattern: RegExp): Counts {
  const counts: Counts = new Map()
  for (const line of lines) {
    const name = pattern.exec(line)?.[1]?.split('.').at(-1)
    if (name !== undefined) counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  return counts
}
