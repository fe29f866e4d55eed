import type { ArtifactStore, ArtifactRef } from '../../contracts/artifacts.types.ts'
import type {
  EpisodeRecord,
  EpisodeSpec,
  EpisodeStart,
  ObservationRecord,
  VerdictRecord,
} from '../../contracts/episodes.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { EvaluatedTask, EvaluationConditions, EvaluationRecord } from '../../contracts/evaluations.types.ts'
import { episodeKeys, runKeys, suiteKeys } from '../../contracts/keys.ts'
import type { EvaluateRecipe, GradingRecipe } from '../../contracts/recipe.types.ts'
import type { SuiteOrigin } from '../../contracts/suites.types.ts'
import { exclusionOf, isValidEpisode } from '../../domain/ledger/episode-fates.ts'
import { type AttemptFacts, summarizeAttempts, type SummaryInput } from '../../domain/statistics/evaluation-summary.ts'
import { readOrThrow, type TaskReader, readUnlessCorrupt } from '../runtime/stored-records.ts'
import { readEpisodeRecords } from '../episode/episode-records.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import type { JudgedScore } from '../../contracts/activities.types.ts'
import { judgedScore } from '../../domain/statistics/comparability.ts'
import { buildEvaluationLedger, unpaidIn } from '../../domain/ledger/ledger.ts'
import type { IterationPlan, StoredRecipe } from '../../contracts/run-records.types.ts'

interface EvaluationPlace {
  run: string
  name: string
  stage: string
}

/**
 * Derives the record of an evaluation from its plan and its episodes' records alone. It is written when the evaluation ends, and a
 * verification derives it again and compares.
 * @throws LonghaulError `Group.TooSmall` if no episode was graded
 */
export async function deriveEvaluation(
  { store, tasks: readTask }: { store: ArtifactStore; tasks: TaskReader },
  { run, name, stage }: EvaluationPlace,
): Promise<{ evaluation: EvaluationRecord; records: EpisodeRecord[]; recipe: StoredRecipe['recipe'] }> {
  const plan = await readOrThrow<IterationPlan>(store, runKeys.plan(run, stage, 0))
  const records = await readEpisodeRecords(store, { run, stage, iteration: 0 })
  const [played] = records.filter(isValidEpisode)
  if (played === undefined) {
    throw new LonghaulError({
      code: 'Group.TooSmall',
      message: `Expected at least one graded episode in evaluation ${name}, got none of ${records.length}`,
    })
  }
  const attempts: AttemptFacts[] = []
  for (const record of records) attempts.push({ record, ...(await readFacts(store, record)) })
  const described = await Promise.all(plan.taskIds.map((taskId) => describeTask(readTask, plan.suite, taskId)))
  const { recipe } = await readOrThrow<StoredRecipe>(store, runKeys.recipe(run))
  const summary = summarizeAttempts({
    planned: described,
    attempts: plan.groupSize,
    facts: attempts,
    ...stillKnown(recipe),
  })
  // As recorded with the suite. Fields that older suites lack are not filled in, so that older evaluations stay unchanged.
  const origin = await store.readRecord<SuiteOrigin>(suiteKeys.origin(plan.suite))
  const evaluation: EvaluationRecord = {
    schema: 'longhaul.evaluation/2',
    run,
    name,
    stage,
    suite: plan.suite,
    ...(origin === null ? {} : { origin }),
    ...summary,
    score: { name, policy: played.policy, ...summary.score },
    conditions: await readConditions(store, attempts),
  }
  return { evaluation, records, recipe }
}

/** Recipes older than prices or audits have none, and their evaluations stay unchanged. */
function stillKnown(recipe: {
  evaluate: Partial<EvaluateRecipe>
  grading?: GradingRecipe
}): Pick<SummaryInput, 'prices' | 'unaudited'> {
  return { prices: recipe.evaluate.prices ?? null, unaudited: recipe.grading?.unauditedRewards ?? null }
}

type PlannedTask = Pick<EvaluatedTask, 'taskId' | 'repo' | 'rowHash' | 'createdAt'>

async function describeTask(readTask: TaskReader, suite: string, taskId: string): Promise<PlannedTask> {
  const { repo, rowHash, createdAt } = await readTask({ suite, taskId })
  // Suites stored by earlier versions have no date.
  return { taskId, repo, rowHash, createdAt: createdAt ?? null }
}

async function readFacts(store: ArtifactStore, record: EpisodeRecord): Promise<Omit<AttemptFacts, 'record'>> {
  const { episode, turns } = record
  const isLost = exclusionOf(record) !== null
  const read = <T extends object>(key: string): Promise<T | null> =>
    isLost ? readUnlessCorrupt<T>(store, key) : store.readRecord<T>(key)
  const verdict = await read<VerdictRecord>(episodeKeys.verdict(episode))
  const start = await read<EpisodeStart>(episodeKeys.start(episode))
  const last = turns === 0 ? null : await read<ObservationRecord>(episodeKeys.observation(episode, turns - 1))
  return {
    verdict,
    wallMs: start === null || last === null ? null : last.observedAtMs - start.startedAtMs,
    startedMs: start?.startedAtMs ?? null,
  }
}

/** All episodes of an evaluation have the same settings, so the first one represents all. */
async function readConditions(
  store: ArtifactStore,
  attempts: readonly AttemptFacts[],
): Promise<EvaluationConditions | null> {
  const [first] = attempts
  const spec = first === undefined ? null : await store.readRecord<EpisodeSpec>(episodeKeys.spec(first.record.episode))
  if (spec === null) return null
  const { scaffold, demonstration, sampling, limits } = spec
  const profiles = new Set(attempts.flatMap(({ verdict }) => (verdict === null ? [] : [verdict.profile])))
  return { scaffold, demonstration, sampling, limits, gradingProfiles: [...profiles].sort() }
}

interface SummarizeInput {
  run: string
  name: string
  stage: string
  policy: PolicyRef
  suite: string
}

/** The score of an evaluation, its record and its ledger, all derived from the episodes' records. */
export async function summarizeEvaluation(
  deps: { store: ArtifactStore; tasks: TaskReader },
  { run, name, stage }: SummarizeInput,
): Promise<{ score: JudgedScore; evaluation: ArtifactRef }> {
  const { store } = deps
  const { evaluation, records, recipe } = await deriveEvaluation(deps, { run, name, stage })
  const unpaid = unpaidIn(records, recipe)
  const ledger = buildEvaluationLedger({ run, stage, iteration: 0, records, evaluation: name, unpaid })
  await store.putRecord(runKeys.ledger(run, stage, 0), ledger)
  return {
    score: judgedScore(evaluation),
    evaluation: await store.putRecord(runKeys.evaluation(run, name), evaluation),
  }
}
