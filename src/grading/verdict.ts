import type { VerdictKind } from '../contracts/episodes.types.ts'
import type { GradeRunResult } from '../contracts/sandbox.types.ts'
import type { Task } from '../contracts/tasks.types.ts'
import { type GradedLog, gradeLog, type RefusalReason } from './grade-log.ts'
import { LOG_PROFILES } from './log-profiles.ts'
import { isResolved, type ListedTests, type TestLists } from './resolution.ts'
import { withoutTiming } from './test-names.ts'

/** Why a patch is not graded, or not plainly wrong. */
export type VerdictReason =
  | 'empty-patch'
  | 'patch-too-large'
  | 'patch-rejected'
  | 'tests-timed-out'
  | 'grading-ended'
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
  /** `rebench-v2` only: whether every listed test passed, regardless of others. */
  subset: boolean | null
  /** One repetition on the same image may end differently; after it the reason stands. */
  mayRepeat: boolean
}

/** What the patch brings about itself, in the image in which the gold patch does none of it. */
const OWN_DOING: ReadonlySet<string | null> = new Set<VerdictReason>([
  'patch-rejected',
  'undecodable-log',
  'parser-raised',
  'deadline',
])

/**
 * The verdict as it counts: what a patch does to its own grading is a failure of the patch, never a reason to play or to grade again.
 * Not for gates, where no verdict means that nothing is proven.
 */
export function asItCounts<T extends { kind: VerdictKind; reason: string | null }>(verdict: T): T {
  const { kind, reason } = verdict
  return kind === 'could-not-grade' && OWN_DOING.has(reason) ? { ...verdict, kind: 'unresolved' } : verdict
}

/** The verdict on one grading run, by the official rules of the task's harness and our own reasons. */
export function judgeRun(
  task: ListedTests & Pick<Task, 'installConfig' | 'gradingProfile' | 'harness'>,
  result: Pick<GradeRunResult, 'kind' | 'log'>,
): Verdict {
  if (result.kind === 'patch-did-not-apply') return ungraded(task, 'could-not-grade', 'patch-rejected', false)
  if (result.kind === 'timed-out') return ungraded(task, 'could-not-grade', 'tests-timed-out', true)
  const graded = gradeLog({
    profile: LOG_PROFILES[task.gradingProfile],
    parser: task.installConfig.logParser,
    log: result.log,
    tests: task,
    evalType: task.harness?.evalType ?? 'pass_and_fail',
  })
  if (graded.kind === 'refused') return ungraded(task, 'could-not-grade', graded.reason, true)
  if (!graded.isFound) return ungraded(task, 'unresolved', 'no-results', true)
  const verdict = graded.tests === null ? judgeNames(task, graded) : judgeLists(task, graded.tests)
  const isEmpty = graded.statuses.size === 0 && verdict.kind === 'unresolved'
  return isEmpty ? { ...verdict, reason: 'no-results', mayRepeat: true } : verdict
}

/** The verdict where reading the log or the patch takes more time or memory than honest ones take. */
export function judgeOverrun(task: ListedTests): Verdict {
  return ungraded(task, 'could-not-grade', 'deadline', false)
}

/** `rebench-v2` has no lists of its own: it compares all passed names with all listed ones. */
function judgeNames(task: ListedTests, { statuses, resolved }: GradedLog): Verdict {
  const passed = (names: readonly string[]): number =>
    names.filter((name) => statuses.get(withoutTiming(name)) === 'PASSED').length
  const failToPass = { passed: passed(task.failToPass), total: task.failToPass.length }
  const passToPass = { passed: passed(task.passToPass), total: task.passToPass.length }
  return {
    kind: resolved === true ? 'resolved' : 'unresolved',
    reason: null,
    failToPass,
    passToPass,
    tests: null,
    subset: failToPass.passed === failToPass.total && passToPass.passed === passToPass.total,
    mayRepeat: false,
  }
}

/** Resolved: every test that should begin to pass does, and none that passed is lost. */
function judgeLists(task: ListedTests, tests: TestLists): Verdict {
  return {
    kind: isResolved(tests) ? 'resolved' : 'unresolved',
    reason: null,
    failToPass: { passed: tests.failToPass.success.length, total: task.failToPass.length },
    passToPass: { passed: tests.passToPass.success.length, total: task.passToPass.length },
    tests,
    subset: null,
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
    subset: null,
    mayRepeat,
  }
}
