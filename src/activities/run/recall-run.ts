import type { JudgedScore, RunKind } from '../../contracts/activities.types.ts'
import type { ArtifactRef, ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { Coordinates } from '../../contracts/episodes.types.ts'
import type { EvaluationRecord } from '../../contracts/evaluations.types.ts'
import { evaluatedAfter, evaluationName, stageOf, UNNAMED_EVALUATION } from '../../contracts/episode-purpose.ts'
import { policyKeys, runKeys } from '../../contracts/keys.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import type { TrainingRecord } from '../../contracts/training.types.ts'
import type { RecalledRun, RecalledStage, StageScore } from '../../contracts/workflows.types.ts'
import type { Ledger } from '../../domain/ledger/ledger.ts'
import { judgedScore } from '../../domain/statistics/comparability.ts'

type Store = Pick<ArtifactStore, 'list' | 'readRecord'>

/**
 * Returns what an earlier execution of a run has completed, from its records alone; null for a run without any, which is its first
 * execution. The workflow that reaches it finds everything in between (an iteration that was collected but not trained, an episode in
 * its fourth turn).
 */
export async function recallRun(
  { store, recipe }: { store: Store; recipe: Recipe },
  { run, kind, evaluation }: { run: string; kind: RunKind; evaluation?: string | undefined },
): Promise<RecalledRun | null> {
  const scores = await recallScores(store, run, evaluationsOf(recipe, kind, evaluation))
  const base = kind === 'train' ? await store.readRecord<PolicyRef>(runKeys.policy(run, 'base')) : null
  if (base === null) return scores.length === 0 ? null : { scores, stages: [] }
  if (recipe.rft === null) return { scores, stages: await recallStages(store, recipe, { run, policy: base }) }
  const tuned = await finishedTraining(store, { run, stage: 'rft', iteration: 0 })
  if (tuned === null) return { scores, stages: [] }
  // Fine-tuning without a batch ends with its initial policy.
  const rft = tuned.policy ?? base
  return { scores, rft, stages: await recallStages(store, recipe, { run, policy: rft }) }
}

/** In the order in which the root plays them. */
function evaluationsOf({ rft, reinforce, evaluate }: Recipe, kind: RunKind, own = UNNAMED_EVALUATION): string[] {
  const stages = reinforce?.stages ?? []
  const last = stages.length - 1
  const trained = [
    ...(rft === null ? [] : ['rft']),
    ...stages.map(({ name }, index) => evaluatedAfter(name, index === last)),
  ]
  const names = kind === 'train' ? ['base', ...trained] : [own]
  const suites = Object.keys(evaluate.suites)
  return names.flatMap((name) => [null, ...suites].map((suite) => evaluationName({ name, iteration: null, suite })))
}

async function recallScores(store: Store, run: string, names: readonly string[]): Promise<StageScore[]> {
  const records = await Promise.all(
    names.map((name) => store.readRecord<EvaluationRecord>(runKeys.evaluation(run, name))),
  )
  return records.flatMap((record) => (record === null ? [] : [record.score]))
}

async function recallStages(
  store: Store,
  recipe: Recipe,
  { run, policy: first }: { run: string; policy: PolicyRef },
): Promise<RecalledStage[]> {
  const { stages = [], evaluateEvery = null } = recipe.reinforce ?? {}
  const recalled: RecalledStage[] = []
  for (const { name, until } of stages) {
    let policy = recalled.at(-1)?.policy ?? first
    let iteration = 1
    let hasPlateaued = false
    for (; iteration <= until.maxIterations && !hasPlateaued; iteration++) {
      const finished = await finishedTraining(store, { run, stage: name, iteration })
      if (finished === null) break
      policy = finished.policy ?? policy
      const isEvaluated = evaluateEvery !== null && iteration % evaluateEvery === 0
      // The stage continues with that evaluation, and finds the training before it completed.
      if (isEvaluated && !(await hasEvaluation(store, run, name, iteration))) break
      if (!isEvaluated || until.plateau === null) continue
      const plateau = await store.readRecord<{ plateau: boolean }>(runKeys.plateau(run, name, iteration))
      if (plateau === null) break
      hasPlateaued = plateau.plateau
    }
    const isDone =
      hasPlateaued || iteration > until.maxIterations || (await isOver(store, recipe, { run, stage: name }))
    if (iteration === 1 && !isDone) return recalled
    recalled.push({ name, policy, iteration, isDone })
    if (!isDone) return recalled
  }
  return recalled
}

/** Whether the run has gone on to the evaluation after a stage, which an operator may have stopped before its last iteration. */
export async function isOver(
  store: Pick<ArtifactStore, 'readRecord'>,
  { reinforce }: Pick<Recipe, 'reinforce'>,
  { run, stage }: { run: string; stage: string },
): Promise<boolean> {
  const name = evaluatedAfter(stage, reinforce?.stages.at(-1)?.name === stage)
  const evaluation = stageOf({ kind: 'evaluation', name, iteration: null, suite: null })
  return (await store.readRecord(runKeys.plan(run, evaluation, 0))) !== null
}

async function hasEvaluation(store: Store, run: string, stage: string, iteration: number): Promise<boolean> {
  const name = evaluationName({ name: stage, iteration, suite: null })
  return (await store.readRecord(runKeys.evaluation(run, name))) !== null
}

/** Returns whether every episode of an iteration is played and accounted for. */
export async function isCollected(store: Store, { run, stage, iteration }: Coordinates): Promise<boolean> {
  if ((await store.readRecord(runKeys.ledger(run, stage, iteration))) !== null) return true
  return (await batchesOf(store, { run, stage, iteration })).length > 0
}

/** The result of an iteration's training: a policy, or none if it had no batch. Null while it is unfinished. */
export async function finishedTraining(
  store: Store,
  coordinates: Coordinates,
): Promise<{ policy: PolicyRef | null } | null> {
  const { run, stage, iteration } = coordinates
  const ledger = await store.readRecord<Ledger>(runKeys.ledger(run, stage, iteration))
  if (ledger === null) return null
  const jobs = Math.max(batchesIn(ledger), (await batchesOf(store, coordinates)).length)
  const lastSlice = Math.max(0, jobs - 1)
  const last = await store.readRecord<TrainingRecord>(runKeys.training(run, stage, iteration, lastSlice))
  if (last === null) return jobs === 0 ? { policy: null } : null
  // Written after the record, so a policy that has diverged has none.
  const policy = await store.readRecord<PolicyRef>(policyKeys.ref(last.policy))
  return policy === null ? null : { policy }
}

export async function recallEvaluation(
  store: Pick<ArtifactStore, 'readRecord' | 'putRecord'>,
  { run, name }: { run: string; name: string },
): Promise<{ score: JudgedScore; evaluation: ArtifactRef } | null> {
  const key = runKeys.evaluation(run, name)
  const record = await store.readRecord<EvaluationRecord>(key)
  if (record === null) return null
  return { score: judgedScore(record), evaluation: await store.putRecord(key, record) }
}

/** A batch that was removed, or that a bucket does not list yet, has still been trained on. */
function batchesIn({ entries }: Ledger): number {
  return new Set(entries.flatMap((entry) => (entry.fate === 'trained' ? [entry.batch] : []))).size
}

async function batchesOf(store: Store, { run, stage, iteration }: Coordinates): Promise<string[]> {
  const plan = runKeys.plan(run, stage, iteration)
  const keys = await store.list(plan.slice(0, plan.lastIndexOf('/') + 1))
  return keys.filter((key) => key.endsWith('/batch.json'))
}
