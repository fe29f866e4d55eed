import { parse, ParserOverrun } from '../../adapters/parsing/parser-pool.ts'
import type { GradingTimeOutRecord } from '../../contracts/episodes.types.ts'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import { asItCounts } from '../../grading/verdict.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { type Graded, type GradingDependencies, runGrading, type RunGradingInput } from './run-grading.ts'
import { FAILURE_CODES, type FailureCode } from '../../contracts/failure-codes.ts'

interface GradeToVerdictInput extends Omit<RunGradingInput, 'logKey' | 'timeOut'> {
  /** Of a file that belongs to this grading, whichever attempt writes it. */
  keyOf: (file: string) => string
  hostId: string
  attempt: number
  isLastAttempt: boolean
}

/**
 * Grades to a verdict that may count. Tests over their limit are run once more, by the next attempt and so on any host: a machine
 * may have been slow. Over it again they are the policy's own doing, since the gold patch ended within the limit: unresolved. The
 * same holds for tests that end their own grading. The first time is recorded, so such tests run at most twice, even across crashes.
 * Any other effect of a patch on its grading is a verdict at once.
 * @throws LonghaulError `Grading.Failed`, `Grading.Ended` after the first time
 */
export async function gradeToVerdict(
  deps: GradingDependencies,
  { keyOf, hostId, attempt, isLastAttempt, ...input }: GradeToVerdictInput,
  signal: AbortSignal,
): Promise<Graded> {
  const key = keyOf('timed-out.json')
  const first = await deps.store.readRecord<GradingTimeOutRecord>(key)
  const logKey = keyOf('test_output.txt')
  const timeOut = { logKey: first === null ? keyOf('timed-out.txt') : logKey }
  const { episode, task } = input
  const remember = (gradeMs: number): Promise<unknown> =>
    deps.store.claimRecord<GradingTimeOutRecord>(key, {
      schema: 'longhaul.grading-time-out/1',
      episode,
      attempt,
      hostId,
      gradeMs,
      atMs: Date.now(),
    })
  let graded: Graded
  try {
    graded = await runGrading(deps, { ...input, timeOut, logKey }, signal)
  } catch (error) {
    if (!isLonghaulError(error) || error.code !== 'Grading.Ended') throw error
    if (first !== null) return await endedGrading(input)
    await remember(0)
    throw error
  }
  if (graded.reason !== 'tests-timed-out') return asItCounts(graded)
  if (first !== null) return { ...graded, kind: 'unresolved' }
  const { gradeMs } = graded
  await remember(gradeMs)
  // No attempt is left to run them again, and one overrun proves nothing about the policy.
  if (isLastAttempt) return graded
  throw new LonghaulError({
    code: 'Grading.Failed',
    message: `Tests of ${task.taskId} were not over after ${Math.round(gradeMs / 1000)} s; they run once more, on any host`,
    details: { host: hostId, attempt },
  })
}

/** The verdict on tests that ended their own grading: there is neither a log nor a container to inspect. */
async function endedGrading({ task, patch }: Pick<GradeToVerdictInput, 'task' | 'patch'>): Promise<Graded> {
  return {
    taskId: task.taskId,
    kind: 'unresolved',
    reason: 'grading-ended',
    profile: task.gradingProfile,
    from: 'container',
    patchSha256: sha256Hex(patch),
    failToPass: { passed: 0, total: task.failToPass.length },
    passToPass: { passed: 0, total: task.passToPass.length },
    gradeMs: 0,
    image: task.image,
    signs: await parse('patchSigns', { patch, goldPatch: task.goldPatch }).catch(noneOfOverrun),
  }
}

/** A patch that takes too long to parse shows no signs; its verdict is `unresolved` anyway. */
function noneOfOverrun(error: unknown): [] {
  if (error instanceof ParserOverrun) return []
  throw error
}

/** Whether another host may succeed where this one failed. Failures of the store and of the user's configuration are the same
 *  on every host. */
export function isHostFailure(error: unknown): error is LonghaulError {
  if (!isLonghaulError(error)) return false
  return FAILURE_CODES[error.code].countsAs !== 'user' && /^(Sandbox|Grading)\./.test(error.code)
}

/** The same failure as one that any host may try again: a missing image would not be retried under its own code. */
export function gradingFailed(cause: LonghaulError, at: { host: string; attempt: number }): LonghaulError {
  return new LonghaulError({
    code: 'Grading.Failed',
    message: `Expected host ${at.host} to grade: ${cause.message}`,
    details: { ...at, failure: cause.code },
    cause,
  })
}

/** Why an episode has no verdict, as its record says it. */
export function reasonOf(code: FailureCode): string {
  return code === 'Sandbox.ImageMissing' || code === 'Sandbox.ImageMismatch' ? 'image' : code
}
