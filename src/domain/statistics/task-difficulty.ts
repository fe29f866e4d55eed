import type { EpisodeRecord } from '../../contracts/episodes.types.ts'
import type { Interval } from './bootstrap.ts'
import { isValidEpisode } from '../ledger/episode-fates.ts'
import type { UnauditedRewards } from '../../contracts/recipe.types.ts'
import { compareText } from '../hash-order.ts'
import { paymentOf } from '../rewards/payment.ts'
import { wilsonInterval } from './proportions.ts'
import { type Reselection, type ReselectInput, reselectPool, type TaskRecord } from '../rewards/stage-rules.ts'

/** An episode and the row of the data set that its task came from. */
export interface PlayedTask {
  record: EpisodeRecord
  rowHash: string
  /** From the recipe that the episode was played with. */
  unaudited: UnauditedRewards
}

/** Every stored attempt at one task, over runs, stages and repeats. */
export interface TaskDifficulty {
  taskId: string
  rowHash: string
  /** Graded attempts; those lost to infrastructure do not count. */
  attempts: number
  /** Paid attempts: tests passed, no suspected hack, and an audit agreed. */
  resolved: number
  rate: number
  /** Wilson's interval, 95 %; 0 … 1 without an attempt. */
  interval: Interval
  /** Episodes without an outcome. */
  lost: number
  policies: string[]
  runs: string[]
}

const LEVEL = 0.95

/** Returns one entry for each task and row, by task id. The same episode given twice counts once; repeats under other ids all count. */
export function mergeAttempts(played: readonly PlayedTask[]): TaskDifficulty[] {
  const unique = [...new Map(played.map((one) => [one.record.episode, one])).values()]
  const groups = Map.groupBy(unique, ({ record, rowHash }) => `${record.taskId}\n${rowHash}`)
  return [...groups.values()].map(describeGroup).sort(byTask)
}

function describeGroup(group: readonly PlayedTask[]): TaskDifficulty {
  const records = group.map(({ record }) => record)
  const valid = group.filter(({ record }) => isValidEpisode(record))
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

/** Success for a curation rule: the tests passed and the success is paid, whatever the shaped reward. */
function isSolved({ record, unaudited }: PlayedTask): boolean {
  return paymentOf(record, unaudited) === 'paid'
}

function byTask(a: TaskDifficulty, b: TaskDifficulty): number {
  return compareText(a.taskId, b.taskId) || compareText(a.rowHash, b.rowHash)
}

/** The records that a later stage's rule reads. */
export function taskRecordsOf(records: readonly EpisodeRecord[], unaudited: UnauditedRewards): TaskRecord[] {
  const played = records.map((record) => ({ record, rowHash: '', unaudited }))
  return mergeAttempts(played).map(({ taskId, resolved, attempts }) => ({ taskId, resolved, attempts }))
}

export type CurationDecision = 'kept' | Reselection['dropped'][number]['reason']

/** Applies the rule to each entry separately, because two rows with one id are two tasks. */
export function curate(
  tasks: readonly TaskDifficulty[],
  rule: ReselectInput['rule'],
): (TaskDifficulty & { decision: CurationDecision })[] {
  return tasks.map((task) => {
    const { dropped } = reselectPool({ pool: [task.taskId], records: [task], rule })
    return { ...task, decision: dropped[0]?.reason ?? 'kept' }
  })
}
