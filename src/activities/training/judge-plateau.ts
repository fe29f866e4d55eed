import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { EvaluationRecord } from '../../contracts/evaluations.types.ts'
import { evaluationName } from '../../contracts/episode-purpose.ts'
import { runKeys } from '../../contracts/keys.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import { haveEqualLimits } from '../../domain/statistics/evaluation-limits.ts'
import { passAt1 } from '../../domain/statistics/statistics.ts'
import { onlyQuick } from '../../domain/statistics/quick-tasks.ts'
import { findPlateau, type IterationScore, type PlateauRecord } from '../../domain/rewards/plateau.ts'

/**
 * Applies a stage's plateau rule to the run's stored evaluations: those inside the stage and, as iteration 0, the one before it if it
 * had the same limits. All are computed on the tasks that evaluations inside a stage play. The first finding is stored, so that a
 * repeated attempt gives the same.
 */
export async function judgePlateau(
  { store, recipe }: { store: ArtifactStore; recipe: Recipe },
  { run, stage, iteration }: { run: string; stage: string; iteration: number },
): Promise<{ plateau: boolean }> {
  const stages = recipe.reinforce?.stages ?? []
  const position = stages.findIndex(({ name }) => name === stage)
  const rule = stages[position]?.until.plateau ?? null
  if (rule === null) return { plateau: false }
  const evaluatedBefore = stages[position - 1]?.name ?? (recipe.rft === null ? 'base' : 'rft')
  const names = [
    // More turns or tokens would look like an improvement, so an evaluation under other limits is not the start of this curve.
    ...(haveEqualLimits(recipe, evaluatedBefore, stage) ? [{ name: evaluatedBefore, iteration: 0 }] : []),
    ...Array.from({ length: iteration }, (_, index) => ({
      name: evaluationName({ name: stage, iteration: index + 1, suite: null }),
      iteration: index + 1,
    })),
  ]
  const scores: IterationScore[] = []
  for (const { name, iteration: at } of names) {
    const record = await store.readRecord<EvaluationRecord>(runKeys.evaluation(run, name))
    if (record === null) continue
    // Suspected hacks do not count as an improvement, because a policy that learns to deceive its tests would keep its stage going.
    const paid = record.tasks.map((task) => ({ ...task, outcomes: task.audited ?? task.outcomes }))
    const { mean, tasks } = passAt1(onlyQuick(paid, recipe.evaluate.quick))
    if (tasks > 0) scores.push({ iteration: at, passAt1: mean })
  }
  const found = findPlateau({ scores, iteration, ...rule })
  const { record } = await store.claimRecord<PlateauRecord>(runKeys.plateau(run, stage, iteration), {
    schema: 'longhaul.plateau/1',
    run,
    stage,
    iteration,
    rule,
    scores,
    ...found,
  })
  return { plateau: record.plateau }
}
