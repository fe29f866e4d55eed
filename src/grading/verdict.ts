import type { VerdictKind } from '../contracts/episodes.types.ts'
import type { GradeRunResult } from '../contracts/sandbox.types.ts'
import type { Task } from '../contracts/tasks.types.ts'
import { type GradedLog, gradeLog, type RefusalReason } from './grade-log.ts'
import { LOG_PROFILES } from './log-profiles.ts'
import { isResolved, type ListedTests, type TestLists } from './resolution.ts'
import { withoutTiming } from './test-names.ts'

/** Why a patch was not graded, or why it failed for another reason than its tests. */
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
  /** Numbers of passed and of all listed tests; a test without a usable status counts as not passed. */
  failToPass: { passed: number; total: number }
  passToPass: { passed: number; total: number }
  /** Null if there are no results; the official report then omits the lists. */
  tests: TestLists | null
  /** `rebench-v2` only: whether every listed test passed, regardless of other tests. */
  subset: boolean | null
  /** Grading may end differently if it is repeated once on the same image; after that the reason is final. */
  mayRepeat: boolean
}

/** The patch causes these itself: in the same image the gold patch causes none of them. */
const OWN_DOING: ReadonlySet<string | null> = new Set<VerdictReason>([
  'patch-rejected',
  'undecodable-log',
  'parser-raised',
  'deadline',
])

/**
 * The verdict as rewards and reports count it: a patch that breaks its own grading has failed, and is neither played nor graded
 * again. Gates do not use it: for them no verdict means no proof.
 */
export function asItCounts<T extends { kind: VerdictKind; reason: string | null }>(verdict: T): T {
  const { kind, reason } = verdict
  return kind === 'could-not-grade' && OWN_DOING.has(reason) ? { ...verdict, kind: 'unresolved' } : verdict
}

/** The verdict on one grading run, by the official rules of the task's harness and Longhaul's own reasons. */
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

/** The verdict if reading the log or the patch takes more time or memory than an honest one needs. */
export function judgeOverrun(task: ListedTests): Verdict {
  return ungraded(task, 'could-not-grade', 'deadline', false)
}

/** `rebench-v2` sorts no lists: it compares all passed names with all listed ones. */
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
