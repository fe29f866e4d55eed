import type { GradingTimeOutRecord } from '../../contracts/episodes.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { type Graded, type GradingDependencies, runGrading, type RunGradingInput } from './run-grading.ts'

export interface GradeToVerdictInput extends Omit<RunGradingInput, 'logKey' | 'timeOut'> {
  /** Of a file that belongs to this grading, whichever attempt writes it. */
  keyOf: (file: string) => string
  hostId: string
  attempt: number
  isLastAttempt: boolean
}

/**
 * Grades to a verdict that may count. Tests over their limit are run once more, by the next attempt and so on any host: a machine
 * may have been slow. Over it again they are the policy's own doing, since the gold patch ended within the limit: unresolved.
 * That the first time was is a record, so whatever dies in between, tests that never end run twice and not more.
 * @throws LonghaulError `Grading.Failed` after the first time
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
  const graded = await runGrading(deps, { ...input, timeOut, logKey }, signal)
  if (graded.reason !== 'tests-timed-out') return graded
  if (first !== null) return { ...graded, kind: 'unresolved' }
  const { episode, task } = input
  const { gradeMs } = graded
  const record = { schema: 'longhaul.grading-time-out/1', episode, attempt, hostId, gradeMs, atMs: Date.now() } as const
  await deps.store.claimRecord<GradingTimeOutRecord>(key, record)
  // Nobody is left to run them again, and one time proves nothing about the policy.
  if (isLastAttempt) return graded
  throw new LonghaulError({
    code: 'Grading.Failed',
    message: `Tests of ${task.taskId} were not over after ${Math.round(gradeMs / 1000)} s; they are run once more, on any host`,
    details: { host: hostId, attempt },
  })
}
