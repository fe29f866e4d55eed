import type { PlannedIteration } from '../../contracts/activities.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { Coordinates, EpisodePurpose, EpisodeRecord } from '../../contracts/episodes.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { firstIteration, purposeOf } from '../../contracts/episode-purpose.ts'
import { runKeys } from '../../contracts/keys.ts'
import type { Recipe, ReinforceStageRecipe } from '../../contracts/recipe.types.ts'
import { isValidEpisode } from '../../domain/ledger/episode-fates.ts'
import { readEpisodeRecords } from '../episode/episode-records.ts'
import { readOrThrow } from '../runtime/stored-records.ts'
import type { IterationPlan } from '../../contracts/run-records.types.ts'

/** Group size, and the number of groups that are played concurrently. */
export function sizesOf(
  recipe: Recipe,
  stage: string,
): Pick<PlannedIteration, 'groupSize' | 'maxReplacements' | 'maxOpenGroups'> {
  const { groupSize } = shape(recipe, purposeOf(stage))
  const { maxReplacements, maxOpenEpisodes } = recipe.rollout
  // One group more than fills the sampler, so that the next group has begun while the last episodes of a group end.
  return { groupSize, maxReplacements, maxOpenGroups: Math.ceil(maxOpenEpisodes / groupSize) + (groupSize > 1 ? 1 : 0) }
}

export function stageNamed({ reinforce }: Recipe, stage: string): ReinforceStageRecipe | undefined {
  return reinforce?.stages.find(({ name }) => name === stage)
}

export function shape(recipe: Recipe, purpose: EpisodePurpose): { groupSize: number; count: number | null } {
  switch (purpose.kind) {
    case 'evaluation':
      return { groupSize: recipe.evaluate.attempts, count: null }
    case 'rft':
      return { groupSize: recipe.rft?.rolloutsPerTask ?? 1, count: recipe.rft?.tasks ?? null }
    case 'reinforce':
      return {
        groupSize: recipe.reinforce?.groupSize ?? 1,
        count: stageNamed(recipe, purpose.stage)?.problemsPerIteration ?? null,
      }
  }
}

/**
 * Requires the record of every episode of an iteration whose groups have ended. A score, a batch and a ledger are derived from the
 * records that exist, so an episode whose record is gone (an older copy of the store was restored, a file was deleted) would vanish
 * from all of them. The run fails instead; when it is started again it plays such episodes again.
 * @param at.round the refill round that has not been played yet. @default every recorded round has been played
 * @throws LonghaulError `Artifact.Missing`
 */
export async function requireWholeGroups(
  { store, recipe }: { store: ArtifactStore; recipe: Recipe },
  { run, stage, iteration, round = Number.POSITIVE_INFINITY }: Coordinates & { round?: number },
): Promise<void> {
  const planned = await plannedTasks(store, { run, stage, iteration, round })
  const records = await readEpisodeRecords(store, { run, stage, iteration })
  const byTask = Map.groupBy(records, ({ taskId }) => taskId)
  const sizes = sizesOf(recipe, stage)
  const torn = planned.filter((taskId) => !isWhole(byTask.get(taskId) ?? [], sizes))
  const [first] = torn
  if (first === undefined) return
  const { groupSize } = sizes
  const found = byTask.get(first)?.length ?? 0
  throw new LonghaulError({
    code: 'Artifact.Missing',
    message: `Expected the records of ${groupSize} graded episodes of each task, or of all replacements: some have disappeared from the store, for ${first} there are ${found} records. Start the run again under its name, and it plays the missing episodes again`,
    details: { run, stage, iteration, tasks: torn.length },
  })
}

/**
 * The same for every iteration of a stage that has its ledger: what a later stage takes from this one would otherwise depend on which
 * records are left, or on what a bucket lists.
 * @throws LonghaulError `Artifact.Missing`
 */
export async function requireWholeStage(
  deps: { store: ArtifactStore; recipe: Recipe },
  { run, stage }: { run: string; stage: string },
): Promise<void> {
  for (let iteration: number = firstIteration(purposeOf(stage)); ; iteration++) {
    if ((await deps.store.readRecord(runKeys.plan(run, stage, iteration))) === null) return
    // An operator may have ended the stage before this iteration, which an earlier execution had begun.
    if ((await deps.store.readRecord(runKeys.ledger(run, stage, iteration))) === null) continue
    await requireWholeGroups(deps, { run, stage, iteration })
  }
}

/**
 * A group ends with all of its graded episodes, or after all of its replacements. Its indexes have no gap. What the end of an execution, or
 * a person, cancelled uses up no replacement, so a run that was started again may have many such records and still lack an episode.
 */
function isWhole(
  records: readonly EpisodeRecord[],
  { groupSize, maxReplacements }: { groupSize: number; maxReplacements: number },
): boolean {
  const indexes = new Set(records.map(({ index }) => index))
  if (records.some((_, index) => !indexes.has(index))) return false
  if (records.filter(isValidEpisode).length >= groupSize) return true
  return records.filter(({ disposition }) => disposition !== 'cancelled').length >= groupSize + maxReplacements
}

/** The tasks of the iteration and of its refill rounds before this one. */
async function plannedTasks(
  store: ArtifactStore,
  { run, stage, iteration, round: end }: Coordinates & { round: number },
): Promise<string[]> {
  const { taskIds } = await readOrThrow<IterationPlan>(store, runKeys.plan(run, stage, iteration))
  const all = [...taskIds]
  for (let round = 1; round < end; round++) {
    const refill = await store.readRecord<IterationPlan>(runKeys.refill(run, stage, iteration, round))
    if (refill === null) return all
    all.push(...refill.taskIds)
  }
  return all
}
