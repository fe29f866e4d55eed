import type { VerdictRecord } from '../../contracts/episodes.types.ts'
import type { GradingInstance, GradingRecord, ShortVerdict } from '../../contracts/grading.types.ts'
import { gradingKeys } from '../../contracts/keys.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import { gatedDigest, type TaskReader } from '../runtime/stored-records.ts'
import { gradingFailed, isHostFailure, reasonOf, gradeToVerdict } from './grade-to-verdict.ts'
import { sandboxLimits } from '../episode/open-sandbox.ts'
import type { GradingDependencies } from './run-grading.ts'
import { verdictSuite } from '../evaluation/suite-origin.ts'
import { identityOf, instanceAt, type PlanReader, recordUngradedPatch } from './stored-plan.ts'

export interface GradePatchInput {
  run: string
  index: number
  owner: string
  ownerRun: string
  attempt: number
  /** Whether this is the last attempt, whose failure becomes the reason for having no verdict. */
  isLastAttempt: boolean
}

export type GradePatchDependencies = GradingDependencies & {
  recipe: Recipe
  tasks: TaskReader
  plans: PlanReader
  hostId: string
}

/** Grades one patch of a grading run in a fresh container of this host. Its verdict is written once, and a repetition reads it. */
export async function gradePatch(
  deps: GradePatchDependencies,
  input: GradePatchInput,
  signal: AbortSignal,
): Promise<ShortVerdict> {
  const { store } = deps
  const instance = instanceAt(await deps.plans(input.run), input.index)
  const identity = identityOf(input.run, instance)
  const key = gradingKeys.file(identity, 'verdict.json')
  const stored = await store.readRecord<VerdictRecord>(key)
  if (stored !== null) return { kind: stored.kind, reason: stored.reason }
  const counted = await countedVerdict(store, input)
  if (counted !== null) return counted
  try {
    const graded = await grade(deps, input, instance, signal)
    const suite = await verdictSuite(store, instance.suite)
    const { record } = await store.claimRecord<VerdictRecord>(key, {
      ...(suite === null ? {} : { suite }),
      ...graded,
      schema: 'longhaul.verdict/1',
      episode: containerOwner(input.run, instance),
    })
    return { kind: record.kind, reason: record.reason }
  } catch (error) {
    // The host may have caused the failure, so the attempt fails and any host takes the next one.
    if (signal.aborted || !isHostFailure(error)) throw error
    if (input.isLastAttempt) return recordUngradedPatch(store, input.run, instance, reasonOf(error.code))
    throw gradingFailed(error, { host: deps.hostId, attempt: input.attempt })
  }
}

/** A person has reset a run that had ended. A verdict that its result does not count would contradict it: regrading is another run. */
async function countedVerdict(
  store: GradePatchDependencies['store'],
  { run, index }: GradePatchInput,
): Promise<ShortVerdict | null> {
  const instance = (await store.readRecord<GradingRecord>(gradingKeys.result(run)))?.instances[index]
  return instance === undefined ? null : { kind: instance.kind, reason: instance.reason }
}

async function grade(
  deps: GradePatchDependencies,
  { run, owner, ownerRun, attempt, isLastAttempt }: GradePatchInput,
  instance: GradingInstance,
  signal: AbortSignal,
) {
  const { suite, taskId, profile, patch } = instance
  const task = await deps.tasks({ suite, taskId })
  const identity = identityOf(run, instance)
  return gradeToVerdict(
    deps,
    {
      hostId: deps.hostId,
      attempt,
      isLastAttempt,
      run,
      episode: containerOwner(run, instance),
      owner,
      ownerRun,
      role: 'grader',
      isCaptured: false,
      limits: sandboxLimits(deps.recipe),
      patch: patch === null ? new Uint8Array() : await deps.store.get(patch),
      ...(await gatedDigest(deps.store, { run: gatingRun(run, instance), suite, taskId })),
      task: { ...task, gradingProfile: profile },
      keyOf: (file) => gradingKeys.file(identity, file),
    },
    signal,
  )
}

/** The run whose gate names the image: a patch of an episode is graded in the image that the episode used. */
function gatingRun(run: string, { episode }: GradingInstance): string {
  return episode?.split('/')[0] ?? run
}

/** The episode id for containers and verdicts. It belongs to this run even if the patch comes from another run's episode. */
function containerOwner(run: string, { taskId, episode }: GradingInstance): string {
  return episode === null ? `${run}/grading/${taskId}` : `${run}/again/${episode}`
}
