import { parse, ParserOverrun } from '../../adapters/parsing/parser-pool.ts'
import type { GradingTimeOutRecord } from '../../contracts/episodes.types.ts'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import { asItCounts } from '../../grading/verdict.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { type Graded, type GradingDependencies, runGrading, type RunGradingInput } from './run-grading.ts'
import { FAILURE_CODES, type FailureCode } from '../../contracts/failure-codes.ts'

interface GradeToVerdictInput extends Omit<RunGradingInput, 'logKey' | 'timeOut'> {
  /** Returns the key of a file of this grading, the same for every attempt. */
  keyOf: (file: string) => string
  hostId: string
  attempt: number
  isLastAttempt: boolean
}

/**
 * Grades to a verdict that counts. Tests that exceed their limit are run once more by the next attempt, which may run on any host,
 * because the machine may have been slow. If they exceed it again, the policy is responsible, since the gold patch stayed within the
 * limit, and the verdict is unresolved. The same holds for tests that end their own grading. The first occurrence is recorded, so that
 * such tests run at most twice, even across crashes. Every other effect of a patch on its grading leads to a verdict at once.
 * @throws LonghaulError `Grading.Failed`, `Grading.Ended` after the first occurrence
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
    message: `Tests of ${task.taskId} had not finished after ${Math.round(gradeMs / 1000)} s; they run once more, on any host`,
    details: { host: hostId, attempt },
  })
}

/** The verdict on tests that ended their own grading, which left neither a log nor a container to inspect. */
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

/** A patch that takes too long to parse yields no signs; its verdict is `unresolved` anyway. */
function noneOfOverrun(error: unknown): [] {
  if (error instanceof ParserOverrun) return []
  throw error
}

/** Returns whether another host may succeed. Failures of the store and of the user's configuration are the same on every host. */
export function isHostFailure(error: unknown): error is LonghaulError {
  if (!isLonghaulError(error)) return false
  return FAILURE_CODES[error.code].countsAs !== 'user' && /^(Sandbox|Grading)\./.test(error.code)
}

/** Converts a failure into one that any host may retry, because a missing image would not be retried under its own code. */
export function gradingFailed(cause: LonghaulError, at: { host: string; attempt: number }): LonghaulError {
  return new LonghaulError({
    code: 'Grading.Failed',
    message: `Expected host ${at.host} to grade: ${cause.message}`,
    details: { ...at, failure: cause.code },
    cause,
  })
}

/** The reason for having no verdict, as the episode's record states it. */
export function reasonOf(code: FailureCode): string {
  return code === 'Sandbox.ImageMissing' || code === 'Sandbox.ImageMismatch' ? 'image' : code
}
