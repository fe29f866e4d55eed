import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { runKeys } from '../../contracts/keys.ts'
import type { ReinforceStageRecipe, UnauditedRewards } from '../../contracts/recipe.types.ts'
import { type Reselection, reselectPool } from '../../domain/rewards/stage-rules.ts'
import { taskRecordsOf } from '../../domain/statistics/task-difficulty.ts'
import { readStageRecords } from '../episode/episode-records.ts'

/** What a stage draws its problems from, and what its rule left out. */
interface StagePool extends Reselection {
  schema: 'longhaul.pool/1'
  run: string
  stage: string
  over: string
}

/**
 * The pool of a stage: the admitted tasks, or what its rule keeps of them after the attempts of the stage it names. Decided once
 * and stored, so that every iteration draws from the same tasks.
 * @throws LonghaulError `Batch.Empty` when the rule keeps nothing
 */
export async function stagePool(
  store: ArtifactStore,
  {
    run,
    stage,
    admitted,
    unaudited,
  }: {
    run: string
    stage: ReinforceStageRecipe | undefined
    admitted: readonly string[]
    unaudited: UnauditedRewards
  },
): Promise<readonly string[]> {
  const rule = stage?.select ?? null
  if (stage === undefined || rule === null) return admitted
  const key = runKeys.pool(run, stage.name)
  const stored = await store.readRecord<StagePool>(key)
  if (stored !== null) return stored.kept

  const records = taskRecordsOf(await readStageRecords(store, { run, stage: rule.over }), unaudited)
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
