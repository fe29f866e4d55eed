import type { PlannedIteration, PlanRefillInput } from '../../contracts/activities.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { runKeys } from '../../contracts/keys.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import { orderByHash } from '../../domain/hash-order.ts'
import { reinforcePool, sizesOf } from './plan-iteration.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { readOrThrow } from '../runtime/stored-records.ts'
import { selectEpisodes } from '../training/build-batch.ts'
import { readEpisodeRecords } from '../episode/episode-records.ts'
import type { IterationPlan, RefillPlan } from '../../contracts/run-records.types.ts'

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
