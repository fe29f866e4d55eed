import type { VerdictKind } from '../contracts/episodes.types.ts'
import type { GradeRunResult } from '../contracts/sandbox.types.ts'
import type { Task } from '../contracts/tasks.types.ts'
import { sliceLog } from './log-slice.ts'
import { logParser } from './parsers/names.ts'
import type { StatusMap } from './parsers/pytest.ts'

/** Why a patch is not graded, or not plainly wrong. */
export type VerdictReason =
  | 'empty-patch'
  | 'patch-too-large'
  | 'patch-rejected'
  | 'tests-timed-out'
  | 'no-results'
  | 'undecodable-log'

export interface TestList {
  success: string[]
  failure: string[]
}

export interface Verdict {
  kind: VerdictKind
  reason: VerdictReason | null
  /** Passed and all listed tests; a test without a usable status counts as not passed here. */
  failToPass: { passed: number; total: number }
  passToPass: { passed: number; total: number }
  /** Null where no results were found; the official report leaves the lists out then. */
  tests: { failToPass: TestList; passToPass: TestList } | null
  /** One repetition on the same image may end differently; after it the reason stands. */
  mayRepeat: boolean
}

type ListedTests = Pick<Task, 'failToPass' | 'passToPass'>

/** The verdict on one grading run, by the rules of the fork (official resolution) and our own reasons. */
export function judgeRun(
  task: ListedTests & Pick<Task, 'installConfig'>,
  result: Pick<GradeRunResult, 'kind' | 'log'>,
): Verdict {
  if (result.kind === 'patch-did-not-apply') return ungraded(task, 'could-not-grade', 'patch-rejected', false)
  if (result.kind === 'timed-out') return ungraded(task, 'could-not-grade', 'tests-timed-out', true)
  const slice = sliceLog(result.log)
  if (slice.kind === 'undecodable') return ungraded(task, 'could-not-grade', 'undecodable-log', true)
  if (slice.kind === 'not-found') return ungraded(task, 'unresolved', 'no-results', true)
  const statuses = logParser(task.installConfig.logParser)?.(slice.text) ?? new Map<string, string>()
  const verdict = judgeStatuses(task, statuses)
  return statuses.size === 0 ? { ...verdict, reason: 'no-results', mayRepeat: true } : verdict
}

/** An empty patch is never run: it takes what the gate found for it. */
export function judgeEmptyPatch(task: ListedTests): Verdict {
  return ungraded(task, 'unresolved', 'empty-patch', false)
}

/** Resolved: every test that should begin to pass does, and none that passed is lost. */
export function judgeStatuses(task: ListedTests, statuses: StatusMap): Verdict {
  const failToPass = sortTests(task.failToPass, statuses)
  const passToPass = sortTests(task.passToPass, statuses)
  const isResolved = successRate(failToPass) === 1 && successRate(passToPass) === 1
  return {
    kind: isResolved ? 'resolved' : 'unresolved',
    reason: null,
    failToPass: { passed: failToPass.success.length, total: task.failToPass.length },
    passToPass: { passed: passToPass.success.length, total: task.passToPass.length },
    tests: { failToPass, passToPass },
    mayRepeat: false,
  }
}

/** PASSED and XFAIL pass; FAILED, ERROR and absent fail; every other word drops out of both lists, as upstream has it. */
function sortTests(ids: string[], statuses: StatusMap): TestList {
  const success: string[] = []
  const failure: string[] = []
  for (const id of ids) {
    const status = statuses.get(id)
    if (status === 'PASSED' || status === 'XFAIL') success.push(id)
    else if (status === undefined || status === 'FAILED' || status === 'ERROR') failure.push(id)
  }
  return { success, failure }
}

/** Of an empty list everything succeeded. */
function successRate({ success, failure }: TestList): number {
  const total = success.length + failure.length
  return total === 0 ? 1 : success.length / total
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
