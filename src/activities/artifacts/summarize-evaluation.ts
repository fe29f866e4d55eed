import type { ArtifactRef, ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { EvaluationRecord } from '../../contracts/evaluations.types.ts'
import { episodeKeys, runKeys } from '../../contracts/keys.ts'
import type { EpisodeRecord, VerdictRecord } from '../../contracts/episodes.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import type { StageScore } from '../../contracts/workflows.types.ts'
import { bootstrapInterval, type ClusteredOutcomes } from '../../domain/bootstrap.ts'
import { isValidEpisode } from '../../domain/episode-rules.ts'
import { buildEvaluationLedger } from '../../domain/ledger.ts'
import { passAt1, type TaskOutcomes } from '../../domain/statistics.ts'
import type { TaskReader } from '../stored-tasks.ts'
import { readEpisodeRecords } from './episode-records.ts'

/** Fixed, so that a report that is made again shows the same interval. */
const INTERVAL_SEED = 1

export interface SummarizeInput {
  run: string
  name: string
  stage: string
  policy: PolicyRef
  suite: string
}

/** The score of an evaluation, its record and its ledger, all derived from the episodes' records. */
export async function summarizeEvaluation(
  { store, tasks: readTask }: { store: ArtifactStore; tasks: TaskReader },
  input: SummarizeInput,
): Promise<{ score: StageScore; evaluation: ArtifactRef }> {
  const place = { run: input.run, stage: input.stage, iteration: 0 }
  const records = await readEpisodeRecords(store, place)
  const tasks = outcomesByTask(records)
  if (tasks.length === 0) {
    throw new LonghaulError({
      code: 'Group.TooSmall',
      message: `Expected at least one graded episode in evaluation ${input.name}, got none of ${records.length}`,
    })
  }
  const { mean, sem, taskSem } = passAt1(tasks)
  const score: StageScore = {
    name: input.name,
    policy: input.policy.version,
    passAt1: mean,
    sem,
    tasks: tasks.length,
    attempts: Math.max(...tasks.map(({ outcomes }) => outcomes.length)),
  }
  const valid = records.filter(isValidEpisode)
  const turns = valid.reduce((sum, record) => sum + record.turns, 0)
  const record: EvaluationRecord = {
    schema: 'longhaul.evaluation/1',
    run: input.run,
    name: input.name,
    stage: input.stage,
    suite: input.suite,
    score,
    taskSem,
    interval: bootstrapInterval({ tasks: await clustered(readTask, input.suite, tasks), seed: INTERVAL_SEED }),
    tasks: tasks.map(({ taskId, outcomes }) => ({ taskId, outcomes: [...outcomes] })),
    dispositions: countBy(records, ({ disposition }) => disposition),
    infra: records.length - valid.length,
    suspectedHacks: records.filter(({ suspectedHack }) => suspectedHack).length,
    meanTurns: turns / Math.max(1, valid.length),
    formatErrorRate: valid.reduce((sum, { formatErrorTurns }) => sum + formatErrorTurns, 0) / Math.max(1, turns),
    gradedByGate: await countGateVerdicts(store, records),
  }
  const key = runKeys.evaluation(input.run, input.name)
  const ledger = buildEvaluationLedger({ ...place, records, evaluation: input.name })
  await store.putRecord(runKeys.ledger(input.run, input.stage, 0), ledger)
  return { score, evaluation: await store.putRecord(key, record) }
}

/** Tasks of one repository resemble each other: they are resampled together. */
async function clustered(readTask: TaskReader, suite: string, tasks: TaskOutcomes[]): Promise<ClusteredOutcomes[]> {
  return Promise.all(
    tasks.map(async (task) => ({ ...task, cluster: (await readTask({ suite, taskId: task.taskId })).repo })),
  )
}

function outcomesByTask(records: readonly EpisodeRecord[]): TaskOutcomes[] {
  const byTask = new Map<string, (0 | 1)[]>()
  for (const record of records.filter(isValidEpisode)) {
    const outcomes = byTask.get(record.taskId) ?? []
    byTask.set(record.taskId, [...outcomes, record.verdict === 'resolved' ? 1 : 0])
  }
  return [...byTask].map(([taskId, outcomes]) => ({ taskId, outcomes }))
}

function countBy<T>(items: readonly T[], key: (item: T) => string): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const item of items) counts[key(item)] = (counts[key(item)] ?? 0) + 1
  return counts
}

async function countGateVerdicts(store: ArtifactStore, records: readonly EpisodeRecord[]): Promise<number> {
  let count = 0
  for (const { episode } of records) {
    const verdict = await store.readRecord<VerdictRecord>(episodeKeys.verdict(episode))
    if (verdict?.from === 'gate') count += 1
  }
  return count
}
