import type { VerdictKind } from '../contracts/episodes.types.ts'
import type { GradeRunResult } from '../contracts/sandbox.types.ts'
import type { Task } from '../contracts/tasks.types.ts'
import { gradeLog, type RefusalReason } from './grade-log.ts'
import { LOG_PROFILES } from './log-profiles.ts'
import type { StatusMap } from './parsers/status-map.ts'
import { isResolved, type ListedTests, RESOLUTION_4, sortTests, type TestLists } from './resolution.ts'

/** Why a patch is not graded, or not plainly wrong. */
export type VerdictReason =
  | 'empty-patch'
  | 'patch-too-large'
  | 'patch-rejected'
  | 'tests-timed-out'
  | 'no-results'
  | RefusalReason

export interface Verdict {
  kind: VerdictKind
  reason: VerdictReason | null
  /** Passed and all listed tests; a test without a usable status counts as not passed here. */
  failToPass: { passed: number; total: number }
  passToPass: { passed: number; total: number }
  /** Null where no results were found; the official report leaves the lists out then. */
  tests: TestLists | null
  /** One repetition on the same image may end differently; after it the reason stands. */
  mayRepeat: boolean
}

/** The verdict on one grading run, by the rules of the fork (official resolution) and our own reasons. */
export function judgeRun(
  task: ListedTests & Pick<Task, 'installConfig'>,
  result: Pick<GradeRunResult, 'kind' | 'log'>,
): Verdict {
  if (result.kind === 'patch-did-not-apply') return ungraded(task, 'could-not-grade', 'patch-rejected', false)
  if (result.kind === 'timed-out') return ungraded(task, 'could-not-grade', 'tests-timed-out', true)
  const graded = gradeLog({
    profile: LOG_PROFILES['fork-4.0.3'],
    parser: task.installConfig.logParser,
    log: result.log,
    tests: task,
  })
  if (graded.kind === 'refused') return ungraded(task, 'could-not-grade', graded.reason, true)
  if (!graded.isFound) return ungraded(task, 'unresolved', 'no-results', true)
  const verdict = judgeStatuses(task, graded.statuses)
  return graded.statuses.size === 0 ? { ...verdict, reason: 'no-results', mayRepeat: true } : verdict
}

/** An empty patch is never run: it takes what the gate found for it. */
export function judgeEmptyPatch(task: ListedTests): Verdict {
  return ungraded(task, 'unresolved', 'empty-patch', false)
}

/** Resolved: every test that should begin to pass does, and none that passed is lost. */
export function judgeStatuses(task: ListedTests, statuses: StatusMap): Verdict {
  const tests = sortTests({ tests: task, statuses, rules: RESOLUTION_4 })
  return {
    kind: isResolved(tests) ? 'resolved' : 'unresolved',
    reason: null,
    failToPass: { passed: tests.failToPass.success.length, total: task.failToPass.length },
    passToPass: { passed: tests.passToPass.success.length, total: task.passToPass.length },
    tests,
    mayRepeat: false,
  }
}

function ungraded(task: ListedTests, kind: VerdictKind, reason: VerdictReason, mayRepeat: boolean): Verdict {
  return {
    kind,
    reason,
    failToPass: { passed: 0, total: task.failToPass.length },
    passToPass: { passed: 0, total: task.passToPass.length },
    tests: null,
    mayRepeat,
  }
}
