import type { EpisodeRecord } from '../contracts/episodes.types.ts'
import type { Interval } from './bootstrap.ts'
import { isValidEpisode } from './episode-rules.ts'
import { compareText } from './hash-order.ts'
import { wilsonInterval } from './proportions.ts'
import { type Reselection, type ReselectInput, reselectPool, type TaskRecord } from './stage-rules.ts'

/** An episode and the row of the data set that its task came from. */
export interface PlayedTask {
  record: EpisodeRecord
  rowHash: string
}

/** Every stored attempt at one task, over runs, stages and repeats. */
export interface TaskDifficulty {
  taskId: string
  rowHash: string
  /** Graded attempts; what infrastructure lost is none. */
  attempts: number
  /** Tests passed, and not by a suspected hack. */
  resolved: number
  rate: number
  /** Wilson's, 95 %; all of 0 … 1 without an attempt. */
  interval: Interval
  /** Episodes without an outcome. */
  lost: number
  policies: string[]
  runs: string[]
}

const LEVEL = 0.95

/** One entry for each task and row, by task id. The same episode given twice counts once; repeats under other ids all count. */
export function mergeAttempts(played: readonly PlayedTask[]): TaskDifficulty[] {
  const unique = [...new Map(played.map((one) => [one.record.episode, one])).values()]
  const groups = Map.groupBy(unique, ({ record, rowHash }) => `${record.taskId}\n${rowHash}`)
  return [...groups.values()].map(describeGroup).sort(byTask)
}

function describeGroup(group: readonly PlayedTask[]): TaskDifficulty {
  const records = group.map(({ record }) => record)
  const valid = records.filter(isValidEpisode)
  const attempts = valid.length
  const resolved = valid.filter(isSolved).length
  return {
    taskId: records[0]?.taskId ?? '',
    rowHash: group[0]?.rowHash ?? '',
    attempts,
    resolved,
    rate: attempts === 0 ? 0 : resolved / attempts,
    interval: wilsonInterval({ successes: resolved, trials: attempts, level: LEVEL }),
    lost: records.length - attempts,
    policies: [...new Set(records.map(({ policy }) => policy))].sort(compareText),
    runs: [...new Set(records.map(({ run }) => run))].sort(compareText),
  }
}

/** Success of a curation rule: the tests passed, not the shaped reward. */
function isSolved({ verdict, suspectedHack }: EpisodeRecord): boolean {
  return verdict === 'resolved' && !suspectedHack
}

function byTask(a: TaskDifficulty, b: TaskDifficulty): number {
  return compareText(a.taskId, b.taskId) || compareText(a.rowHash, b.rowHash)
}

/** What a later stage's rule reads. */
export function taskRecordsOf(records: readonly EpisodeRecord[]): TaskRecord[] {
  return mergeAttempts(records.map((record) => ({ record, rowHash: '' }))).map(({ taskId, resolved, attempts }) => {
    return { taskId, resolved, attempts }
  })
}

export type CurationDecision = 'kept' | Reselection['dropped'][number]['reason']

/** The rule for each entry by itself: two rows under one id are two tasks. */
export function curate(
  tasks: readonly TaskDifficulty[],
  rule: ReselectInput['rule'],
): (TaskDifficulty & { decision: CurationDecision })[] {
  return tasks.map((task) => {
    const { dropped } = reselectPool({ pool: [task.taskId], records: [task], rule })
    return { ...task, decision: dropped[0]?.reason ?? 'kept' }
  })
}
