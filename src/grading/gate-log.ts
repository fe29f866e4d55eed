import type { GateRecord } from '../contracts/gates.types.ts'
import type { Task } from '../contracts/tasks.types.ts'
import { exceptionsIn } from '../domain/gates/log-exceptions.ts'
import { missedNameLines } from '../domain/gates/hidden-names.ts'
import { gradeLog } from './grade-log.ts'
import { LOG_PROFILES } from './log-profiles.ts'
import { withoutTiming } from './test-names.ts'

type GatedTask = Pick<Task, 'gradingProfile' | 'installConfig' | 'failToPass' | 'passToPass'>

/** What a gate keeps of a log beside its verdict. */
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
  const missing: Record<string, string> = {}
  for (const test of [...failToPass, ...passToPass]) {
    const status = statuses.get(test) ?? statuses.get(withoutTiming(test)) ?? 'MISSING'
    if (status !== 'PASSED') missing[test] = status
  }
  return missing
}
