import type { PlanIterationInput, PlanRefillInput, PlannedIteration } from '../../contracts/activities.types.ts'
import type { ArtifactRef, ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { evaluationName, purposeOf } from '../../contracts/episode-purpose.ts'
import { gateKeys, runKeys } from '../../contracts/keys.ts'
import type { EvaluationPurpose } from '../../contracts/episodes.types.ts'
import type { GatedSuite } from '../../contracts/gates.types.ts'
import type { OverlapRecord } from '../../contracts/suites.types.ts'
import type { Recipe, ReinforceStageRecipe } from '../../contracts/recipe.types.ts'
import { type StagePool, drawProblems, reselectPool } from '../../domain/rewards/stage-rules.ts'
import { unauditedRewardsOf } from '../../domain/rewards/payment.ts'
import { onlyQuick } from '../../domain/statistics/quick-tasks.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { readOrThrow } from '../runtime/stored-records.ts'
import { requireOwnPolicy, requireOwnSuite } from './require-recorded.ts'
import { requireWholeStage, shape, sizesOf, stageNamed } from './require-whole-groups.ts'
import { finishedTraining, isCollected, isOver, recallEvaluation } from './recall-run.ts'
import { taskRecordsOf } from '../../domain/statistics/task-difficulty.ts'
import { readEpisodeRecords, readStageRecords } from '../episode/episode-records.ts'
import type { IterationPlan, RefillPlan } from '../../contracts/run-records.types.ts'
import { orderByHash } from '../../domain/hash-order.ts'
import { selectEpisodes } from '../training/build-batch.ts'

/** Decides which tasks an iteration plays, in which order, and how many episodes each. Stored as a record, so that every attempt
 *  plays the same. */
export async function planIteration(
  deps: { store: ArtifactStore; recipe: Recipe },
  input: PlanIterationInput,
): Promise<PlannedIteration> {
  const { store, recipe } = deps
  const { run, stage, iteration, suite } = input
  const purpose = purposeOf(stage)
  const over = purpose.kind === 'reinforce' ? await lastOfStage({ store, recipe }, input) : null
  if (over !== null) return { over: true, plan: over, tasks: 0, ...sizesOf(recipe, stage) }
  if (input.policy !== undefined) {
    const { policy, after } = input
    await requireOwnPolicy(deps, { run, stage, iteration, policy, ...(after === undefined ? {} : { after }) })
  }
  if (input.disjoint === true) await requireOwnSuite(store, { run, stage, suite })
  const { groupSize, count } = shape(recipe, purpose)
  const admitted = await admittedTasks(store, input)
  const pool = purpose.kind === 'reinforce' ? await reinforcePool({ store, recipe }, input) : admitted
  const taskIds =
    purpose.kind === 'evaluation'
      ? evaluatedTasks(recipe, purpose, admitted)
      : drawProblems({
          pool,
          recipeSeed: recipe.seed,
          stage,
          iteration: Math.max(1, iteration),
          count: count ?? pool.length,
          hash: sha256Hex,
        })
  const plan: IterationPlan = { schema: 'longhaul.plan/1', run, stage, iteration, suite, groupSize, taskIds }
  const ref = await store.putRecord(runKeys.plan(run, stage, iteration), plan)
  const refill = purpose.kind === 'reinforce' ? (recipe.reinforce?.filter.refill ?? false) : false
  return {
    ...(await alreadyDone(store, input)),
    plan: ref,
    tasks: taskIds.length,
    ...sizesOf(recipe, stage),
    ...(refill === false ? {} : { refill }),
  }
}

/**
 * The plan of the last iteration of a stage that is over, if this one was never begun. An operator stopped the stage before it; a reset
 * without the signals of the first execution does not know that, and would train beyond what the run has evaluated and promoted.
 */
async function lastOfStage(
  { store, recipe }: { store: ArtifactStore; recipe: Recipe },
  { run, stage, iteration }: PlanIterationInput,
): Promise<ArtifactRef | null> {
  if (iteration === 1 || (await store.readRecord(runKeys.plan(run, stage, iteration))) !== null) return null
  if (!(await isOver(store, recipe, { run, stage }))) return null
  const key = runKeys.plan(run, stage, iteration - 1)
  const last = await store.readRecord<IterationPlan>(key)
  return last === null ? null : store.putRecord(key, last)
}

/** The tasks from which a reinforce stage draws its problems. */
async function reinforcePool(
  { store, recipe }: { store: ArtifactStore; recipe: Recipe },
  input: PlanIterationInput,
): Promise<readonly string[]> {
  const admitted = await admittedTasks(store, input)
  return stagePool({ store, recipe }, { run: input.run, stage: stageNamed(recipe, input.stage), admitted })
}

async function admittedTasks(store: ArtifactStore, input: PlanIterationInput): Promise<readonly string[]> {
  const { admitted } = await readOrThrow<GatedSuite>(store, gateKeys.gated(input.run, input.suite))
  return withoutOverlap(store, input, admitted)
}

/** Tasks that the run also evaluates are never trained on. Runs of earlier versions have no such record. */
async function withoutOverlap(
  store: ArtifactStore,
  { run, stage }: PlanIterationInput,
  admitted: readonly string[],
): Promise<readonly string[]> {
  if (purposeOf(stage).kind === 'evaluation') return admitted
  const excluded = new Set((await store.readRecord<OverlapRecord>(runKeys.overlap(run)))?.excluded ?? [])
  const left = admitted.filter((taskId) => !excluded.has(taskId))
  if (left.length > 0 || admitted.length === 0) return left
  throw new LonghaulError({
    code: 'Suite.Overlap',
    message: 'Expected a training task that passed its gate and is not evaluated, but all that passed are evaluated',
    details: { admitted: admitted.length, record: runKeys.overlap(run) },
  })
}

/** What an earlier execution of the run has completed of the iteration. */
async function alreadyDone(
  store: ArtifactStore,
  { run, stage, iteration }: PlanIterationInput,
): Promise<Pick<PlannedIteration, 'collected' | 'finished' | 'evaluated'>> {
  const coordinates = { run, stage, iteration }
  if (!(await isCollected(store, coordinates))) return {}
  const purpose = purposeOf(stage)
  if (purpose.kind === 'evaluation') {
    const evaluated = await recallEvaluation(store, { run, name: evaluationName(purpose) })
    return { collected: true, ...(evaluated === null ? {} : { evaluated }) }
  }
  const finished = await finishedTraining(store, coordinates)
  return { collected: true, ...(finished === null ? {} : { finished }) }
}

function evaluatedTasks({ evaluate }: Recipe, { iteration }: EvaluationPurpose, admitted: readonly string[]): string[] {
  if (iteration === null) return [...admitted]
  const tasks = onlyQuick(
    admitted.map((taskId) => ({ taskId })),
    evaluate.quick,
  )
  if (tasks.length > 0) return tasks.map(({ taskId }) => taskId)
  throw new LonghaulError({
    code: 'Task.GateFailed',
    message: 'Expected a task of evaluate.quick to have passed its gate, but all of them were refused',
  })
}

export async function readPlanPage(
  store: ArtifactStore,
  { plan, from, count }: { plan: ArtifactRef; from: number; count: number },
): Promise<string[]> {
  const { taskIds } = await readOrThrow<IterationPlan>(store, plan.key)
  return taskIds.slice(from, from + count)
}

/**
 * Determines the pool of a stage: the admitted tasks, or those that its rule keeps based on the attempts of the stage it names. Decided
 * once and stored, so that every iteration draws from the same tasks.
 * @throws LonghaulError `Batch.Empty` if the rule keeps nothing; `Artifact.Missing` if a record of that stage has disappeared
 */
async function stagePool(
  { store, recipe }: { store: ArtifactStore; recipe: Recipe },
  { run, stage, admitted }: { run: string; stage: ReinforceStageRecipe | undefined; admitted: readonly string[] },
): Promise<readonly string[]> {
  const rule = stage?.select ?? null
  if (stage === undefined || rule === null) return admitted
  const key = runKeys.pool(run, stage.name)
  const stored = await store.readRecord<StagePool>(key)
  if (stored !== null) return stored.kept

  await requireWholeStage({ store, recipe }, { run, stage: rule.over })
  const records = taskRecordsOf(await readStageRecords(store, { run, stage: rule.over }), unauditedRewardsOf(recipe))
  const selection = reselectPool({ pool: admitted, records, rule })
  if (selection.kept.length === 0) {
    throw new LonghaulError({
      code: 'Batch.Empty',
      message: `Expected select of stage ${stage.name} to keep some of ${admitted.length} tasks, but each was solved too often, never, or not seen in ${rule.over}`,
    })
  }
  const pool: StagePool = { schema: 'longhaul.pool/1', run, stage: stage.name, over: rule.over, ...selection }
  return (await store.claimRecord(key, pool)).record.kept
}

/**
 * Plans one round of DAPO's dynamic sampling: one further problem for each group whose rewards are all equal, drawn from the stage's
 * pool without the iteration's own problems. Decided once and recorded, so that a repeated iteration draws the same.
 */
export async function planRefill(
  { store, recipe }: { store: ArtifactStore; recipe: Recipe },
  input: PlanRefillInput,
): Promise<PlannedIteration> {
  const { run, stage, iteration, round } = input
  const key = runKeys.refill(run, stage, iteration, round)
  const known = await store.readRecord<RefillPlan>(key)
  const plan = known ?? (await decide({ store, recipe }, input))
  const ref = await store.putRecord<RefillPlan>(key, plan)
  return {
    plan: ref,
    tasks: plan.taskIds.length,
    ...sizesOf(recipe, stage),
  }
}

async function decide(
  { store, recipe }: { store: ArtifactStore; recipe: Recipe },
  { run, stage, iteration, suite, round }: PlanRefillInput,
): Promise<RefillPlan> {
  const base = await readOrThrow<IterationPlan>(store, runKeys.plan(run, stage, iteration))
  const played = new Set(base.taskIds)
  for (let earlier = 1; earlier < round; earlier++) {
    const { taskIds } = await readOrThrow<RefillPlan>(store, runKeys.refill(run, stage, iteration, earlier))
    for (const taskId of taskIds) played.add(taskId)
  }
  const records = (await readEpisodeRecords(store, { run, stage, iteration })).filter(({ taskId }) =>
    played.has(taskId),
  )
  const { groups } = selectEpisodes(recipe, stage, records)
  const kept = groups.filter(({ dropped }) => dropped === null).length
  const withoutSpread = groups.filter(({ dropped }) => dropped === 'outcome' || dropped === 'std').length
  // A group that lost episodes to infrastructure had its own replacements and is not drawn again.
  const wanted = Math.max(0, base.taskIds.length - kept - (groups.length - kept - withoutSpread))
  const pool = await reinforcePool({ store, recipe }, { run, stage, iteration, suite })
  const left = orderByHash({
    items: pool.filter((taskId) => !played.has(taskId)),
    material: (taskId) => `${recipe.seed}/${stage}/${iteration}/refill/${taskId}`,
    hash: sha256Hex,
  })
  return { ...base, taskIds: left.slice(0, wanted), round, kept, withoutSpread }
}
