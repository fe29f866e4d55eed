import { LonghaulError } from '../contracts/errors.ts'
import { CALL_TIMEOUT_MS, IS_OPEN, type LonghaulConnection } from './connect.ts'
import { grpcStatus } from '../platform/temporal-reach.ts'
import { type ROOT_IDS, ROOT_TYPES } from './start.ts'
import type { RunKind } from '../contracts/activities.types.ts'
import type {
  EvaluateResult,
  GradePredictionsResult,
  RolloutReport,
  RunProgress,
  TrainAgentResult,
} from '../contracts/workflows.types.ts'
import { type RunAddress, queryProgress, queryRollout } from './control-run.ts'
import { type EpisodeCounts, countEpisodes } from './watch-run.ts'
import { headlineEvaluation } from '../contracts/episode-purpose.ts'
import { createSlots } from '../platform/limiter.ts'

export interface ListedRun {
  /** Null until the run has its name. */
  run: string | null
  /** What the run does, as its records say it. */
  kind: RunKind
  workflowId: string
  /** Of its last execution. */
  executionId: string
  type: string
  /** `RUNNING`, `COMPLETED`, `FAILED`, … as Temporal says it. */
  status: string
  startedAt: Date
  closedAt: Date | null
  /** Its headline figure, if it has completed with one; always null unless `scores` is asked for. */
  score: RunScore | null
  /** Search attributes of the run, by name. */
  attributes: Record<string, string | number | boolean>
}

export interface ListRunsInput {
  connection: LonghaulConnection
  /** Only runs under way. @default false */
  open?: boolean
  /** A filter of Temporal's list language, such as `Model = 'qwen3-4b'`. */
  filter?: string
  /** @default 50 */
  limit?: number
  /** Whether the scores of completed runs are read, by one small request each. @default false */
  scores?: boolean
}

const KINDS: Readonly<Record<string, RunKind>> = {
  trainAgent: 'train',
  evaluate: 'eval',
  gradePredictions: 'grade',
  gateSuite: 'gate',
} satisfies Record<keyof typeof ROOT_IDS, RunKind>

/** Most workflows looked through for roots: evaluations inside of training runs are of the same type. */
const MOST_LOOKED_AT = 5_000

/**
 * Runs from the server alone: no worker is asked. First the runs under way, the latest start first, then those that have ended, the
 * latest end first. The index lags by a moment.
 * @throws LonghaulError `Config.Invalid` for a filter that the server refuses
 */
export async function listRuns(input: ListRunsInput): Promise<ListedRun[]> {
  const { connection, open = false, filter, limit = 50, scores = false } = input
  const parts = [`WorkflowType IN (${ROOT_TYPES})`]
  if (open) parts.push(IS_OPEN)
  if (filter !== undefined) parts.push(`(${filter})`)
  const runs: ListedRun[] = []
  let looked = 0
  try {
    await connection.client.withDeadline(Date.now() + CALL_TIMEOUT_MS, async () => {
      for await (const info of connection.client.workflow.list({ query: parts.join(' AND '), pageSize: 200 })) {
        looked += 1
        if (looked > MOST_LOOKED_AT) return
        // An earlier execution of a run that was listed before it: the run has begun with this one.
        if (info.status.name === 'CONTINUED_AS_NEW') {
          const later = runs.findLast(({ workflowId }) => workflowId === info.workflowId)
          if (later !== undefined) later.startedAt = info.startTime
          continue
        }
        if (runs.length >= limit) return
        // An evaluation inside of a training run belongs to that run.
        if (info.parentExecution !== undefined) continue
        const attributes = attributesOf(info.searchAttributes)
        const { workflowId, type, status, startTime, closeTime } = info
        runs.push({
          run: typeof attributes['TrainRun'] === 'string' ? attributes['TrainRun'] : null,
          kind: KINDS[type] ?? 'train',
          workflowId,
          executionId: info.runId,
          type,
          status: status.name,
          startedAt: startTime,
          closedAt: closeTime ?? null,
          score: null,
          attributes,
        })
      }
    })
  } catch (error) {
    throw explainRefusal(error, filter)
  }
  // Stores of the server differ in their order.
  runs.sort((a, b) => recency(b) - recency(a) || b.startedAt.getTime() - a.startedAt.getTime())
  if (!scores) return runs
  const read = await readScores(connection, runs)
  return runs.map((run, at) => ({ ...run, score: read[at] ?? null }))
}

function recency({ closedAt }: ListedRun): number {
  return closedAt === null ? Number.MAX_SAFE_INTEGER : closedAt.getTime()
}

/** gRPC 3: the server does not understand the query. */
function explainRefusal(error: unknown, filter: string | undefined): unknown {
  if (grpcStatus(error) !== 3 || filter === undefined) return error
  const why = error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error)
  return new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected a filter over registered search attributes such as "Model = 'qwen3-4b'", got ${JSON.stringify(filter)}: ${why}`,
    cause: error,
  })
}

/** The server's own attributes are about builds of workers: no fact of a run. */
const OF_THE_SERVER = /^(BuildIds|Temporal|Batcher)/

function attributesOf(found: object): ListedRun['attributes'] {
  const attributes: ListedRun['attributes'] = {}
  for (const [name, values] of Object.entries(found)) {
    const value: unknown = Array.isArray(values) ? values[0] : values
    const isPlain = typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    if (isPlain && !OF_THE_SERVER.test(name)) attributes[name] = value
  }
  return attributes
}

/** How far a run is, as the run or the server tells it. */
export interface RunLook {
  /** `run`: its own answer. `server`: no control worker has answered, the server's index and records tell what they know. */
  source: 'run' | 'server'
  /** Null where no worker has answered. */
  progress: RunProgress | null
  /** The open rollout at this moment, or as the run was last told. */
  rollout: RolloutReport | null
  attributes: ListedRun['attributes']
  /** Open children of the root. */
  open: { workflowId: string; type: string }[]
  episodes: EpisodeCounts | null
}

/** Asks the run for three seconds, then the server alone: a wedged or dead worker takes the details, never the answer. */
export async function lookAtRun(address: RunAddress): Promise<RunLook> {
  const { connection, workflowId } = address
  const described = connection.client.withDeadline(Date.now() + CALL_TIMEOUT_MS, () =>
    connection.client.workflow.getHandle(workflowId).describe(),
  )
  const [progress, { searchAttributes, raw }] = await Promise.all([queryProgress(address), described])
  const attributes = attributesOf(searchAttributes)
  const run = progress?.run ?? attributes['TrainRun']
  const told = progress?.rollout ?? null
  const [episodes, now] = await Promise.all([
    typeof run === 'string' ? countEpisodes(connection, run) : null,
    told === null ? null : queryRollout({ connection, workflowId: told.workflowId }),
  ])
  return {
    source: progress === null ? 'server' : 'run',
    progress,
    rollout: now ?? told,
    attributes,
    open: (raw.pendingChildren ?? []).map((child) => ({
      workflowId: child.workflowId ?? '',
      type: child.workflowTypeName ?? '',
    })),
    episodes,
  }
}

/** The number that a run is known by: pass@1 with its standard error over tasks. */
export interface RunScore {
  /** Which evaluation of the run it is, such as `rl`; null of a grading. */
  name: string | null
  passAt1: number
  sem: number
  tasks: number
}

/** Requests at once: a server answers each within milliseconds. */
const READS_AT_ONCE = 16

/**
 * The scores that completed runs returned, by one small request each: only a history's last event is read. All requests together
 * have one deadline. A result that cannot be read in time, or without the keys of encrypted histories, has no score; the list is still
 * worth showing.
 */
async function readScores(
  connection: LonghaulConnection,
  runs: readonly Pick<ListedRun, 'workflowId' | 'type' | 'status' | 'executionId'>[],
): Promise<(RunScore | null)[]> {
  const slots = createSlots(READS_AT_ONCE)
  const deadline = Date.now() + CALL_TIMEOUT_MS
  const read = async ({ workflowId, type, executionId }: (typeof runs)[number]): Promise<RunScore | null> => {
    if (Date.now() > deadline) return null
    try {
      const result: unknown = await connection.client.withDeadline(deadline, () =>
        // Of a completed execution the server answers at once, with the last event alone.
        connection.client.workflow.getHandle(workflowId, executionId, { followRuns: false }).result(),
      )
      return headlineScore(type, result)
    } catch {
      return null
    }
  }
  return Promise.all(
    runs.map(async (run) => {
      const hasScore = run.status === 'COMPLETED' && run.type !== 'gateSuite'
      return hasScore ? slots.use(() => read(run)) : null
    }),
  )
}

/** Of a training run: its last evaluation of the held-out suite, as `longhaul compare RUN` chooses it. */
export function headlineScore(type: string, result: unknown): RunScore | null {
  if (typeof result !== 'object' || result === null) return null
  if (type === 'gradePredictions') {
    const { graded = null } = result as Partial<GradePredictionsResult>
    return graded === null ? null : scoreOf({ name: null, passAt1: graded.mean, sem: graded.sem, tasks: graded.tasks })
  }
  if (type === 'evaluate') return scoreOf(result as EvaluateResult)
  const stages = (result as Partial<TrainAgentResult>).stages ?? []
  const chosen = headlineEvaluation(stages)
  return chosen === undefined ? null : scoreOf(chosen)
}

/** Runs of earlier versions and workflows of the same name that are not ours may have returned anything. */
function scoreOf({ name, passAt1, sem, tasks }: RunScore): RunScore | null {
  return typeof passAt1 === 'number' && typeof sem === 'number' ? { name, passAt1, sem, tasks } : null
}
