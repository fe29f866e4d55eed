import { setTimeout as sleep } from 'node:timers/promises'
import { WorkflowFailedError, type WorkflowHandle } from '@temporalio/client'
import { ApplicationFailure, CancelledFailure, TerminatedFailure, TimeoutFailure } from '@temporalio/common'
import type { RunProgress } from '../contracts/workflows.types.ts'
import { CALL_TIMEOUT_MS, type LonghaulConnection, connect, isOpen } from './connect.ts'
import { queryProgress } from './control-run.ts'
import { type RunWork, lookAtWork } from './look-at-work.ts'
import type { SandboxActivities } from '../contracts/activities.types.ts'
import { type FailureCode, isFailureCode, isRefusalOfInput } from '../contracts/failure-codes.ts'

/** Episodes of a run by the state of their workflows. */
export interface EpisodeCounts {
  open: number
  ended: number
}

export type RunEvent<T> =
  /** Sent when something changed. `progress` is null while no worker answers, `work` where the server could not tell. */
  | {
      kind: 'progress'
      at: Date
      progress: RunProgress | null
      episodes: EpisodeCounts | null
      work: RunWork | null
    }
  /** The server could not be asked; the run itself goes on. */
  | { kind: 'unreachable'; at: Date; message: string }
  /** Always the last one. */
  | { kind: 'closed'; at: Date; outcome: RunOutcome<T> }

export interface WatchRunInput {
  connection: LonghaulConnection
  workflowId: string
  /** @default 2000 */
  intervalMs?: number
  /** Ends the watching, never the run. */
  signal?: AbortSignal
}

/** Asks the run how far it is until it ends. A server that goes away for a while is an event; watching goes on. */
export async function* watchRun<T>(input: WatchRunInput): AsyncGenerator<RunEvent<T>> {
  const { connection, workflowId, intervalMs = 2_000, signal } = input
  let last = ''
  for (;;) {
    if (signal?.aborted === true) return
    const event = await look<T>(connection, workflowId)
    const text = JSON.stringify(event, changesAlone)
    if (text !== last) yield event
    last = text
    if (event.kind === 'closed') return
    await sleep(intervalMs, undefined, signal === undefined ? {} : { signal }).catch(() => undefined)
  }
}

/** Without what changes although nothing has happened. */
function changesAlone(key: string, value: unknown): unknown {
  return key === 'at' || key === 'eta' ? null : value
}

async function look<T>(connection: LonghaulConnection, workflowId: string): Promise<RunEvent<T>> {
  const handle = connection.client.workflow.getHandle(workflowId)
  try {
    const { status, raw } = await connection.client.withDeadline(Date.now() + CALL_TIMEOUT_MS, () => handle.describe())
    if (!isOpen(status.name)) {
      return { kind: 'closed', at: new Date(), outcome: await outcomeOf<T>(handle) }
    }
    const progress = await queryProgress({ connection, workflowId })
    const [episodes, work] = await Promise.all([
      progress?.run ? countEpisodes(connection, progress.run) : null,
      // The phase alone says enough where this fails.
      lookAtWork({ connection, root: raw, progress }).catch(() => null),
    ])
    return { kind: 'progress', at: new Date(), progress, episodes, work }
  } catch (error) {
    if ((error as { code?: unknown }).code === 'Config.NotFound') throw error
    return { kind: 'unreachable', at: new Date(), message: error instanceof Error ? error.message : String(error) }
  }
}

/** From the server's index, which may lag by a moment: for people, never for decisions. */
export async function countEpisodes({ client }: LonghaulConnection, run: string): Promise<EpisodeCounts | null> {
  if (!/^[A-Za-z0-9._-]+$/.test(run)) return null
  const query = `TrainRun = '${run}' AND WorkflowType = 'episode' GROUP BY ExecutionStatus`
  try {
    const { count, groups } = await client.withDeadline(Date.now() + CALL_TIMEOUT_MS, () =>
      client.workflow.count(query),
    )
    const open = groups.find(({ groupValues }) => String(groupValues[0]) === 'Running')?.count ?? 0
    return { open, ended: count - open }
  } catch {
    return null
  }
}

/** How a run ended. */
export type RunOutcome<T> =
  | { status: 'completed'; result: T }
  /** `hasPlayed`: known of refused input alone. True where it had begun to gate, grade or play, so sandboxes or trainers were used. */
  | { status: 'failed'; code: FailureCode; message: string; hasPlayed?: boolean }
  | { status: 'cancelled' }
  | { status: 'terminated'; message: string }
  | { status: 'timed-out'; message: string }

/** Waits for the end of a run. @throws every error that is not the end of a workflow */
export async function outcomeOf<T>(handle: WorkflowHandle): Promise<RunOutcome<T>> {
  const outcome = await toOutcome<T>(handle.result() as Promise<T>)
  if (outcome.status !== 'failed' || !isRefusalOfInput(outcome.code)) return outcome
  // A server that has just told the end and does not answer now leaves it open.
  const hasPlayed = await hasUsedMachines(handle).catch(() => null)
  return hasPlayed === null ? outcome : { ...outcome, hasPlayed }
}

/** Grade in the root itself, without a child. */
const GRADING_ACTIVITIES: readonly (string | null | undefined)[] = [
  'gateTask',
  'gradePatch',
] satisfies (keyof SandboxActivities)[]

/** By the history of the last execution: the first activities of a run check what it was given; most gates and all rollouts are children. */
async function hasUsedMachines(handle: WorkflowHandle): Promise<boolean> {
  const { events } = await handle.fetchHistory()
  return (events ?? []).some(
    ({
      workflowExecutionStartedEventAttributes: started,
      startChildWorkflowExecutionInitiatedEventAttributes: child,
      activityTaskScheduledEventAttributes: scheduled,
    }) =>
      (child !== null && child !== undefined) ||
      GRADING_ACTIVITIES.includes(scheduled?.activityType?.name) ||
      (started?.continuedExecutionRunId ?? '') !== '',
  )
}

/** @throws every error that is not the end of a workflow: a lost connection says nothing about the run */
export async function toOutcome<T>(result: Promise<T>): Promise<RunOutcome<T>> {
  try {
    return { status: 'completed', result: await result }
  } catch (error) {
    if (!(error instanceof WorkflowFailedError)) throw error
    return explain(error.cause)
  }
}

function explain(cause: Error | undefined): Exclude<RunOutcome<never>, { status: 'completed' }> {
  if (cause instanceof CancelledFailure) return { status: 'cancelled' }
  if (cause instanceof TerminatedFailure) return { status: 'terminated', message: cause.message }
  if (cause instanceof TimeoutFailure) return { status: 'timed-out', message: cause.message }
  for (let link: unknown = cause; link instanceof Error; link = link.cause) {
    if (link instanceof CancelledFailure) return { status: 'cancelled' }
    if (link instanceof ApplicationFailure && isFailureCode(link.type)) {
      return { status: 'failed', code: link.type, message: link.message }
    }
  }
  return { status: 'failed', code: 'Unexpected', message: cause?.message ?? 'The workflow failed without a reason' }
}

/** A run that was started or found. */
export interface RunHandle<T> {
  workflowId: string
  /** True if it already ran or had ended. */
  attached: boolean
  connection: LonghaulConnection
  /** Waits for the end without a limit. A failed run is an outcome, not a rejection. */
  outcome(): Promise<RunOutcome<T>>
  progress(): Promise<RunProgress | null>
  watch(options?: { intervalMs?: number; signal?: AbortSignal }): AsyncGenerator<RunEvent<T>>
  /** Closes the connection if the call that made this handle opened it. The run continues. */
  close(): Promise<void>
}

export function makeRunHandle<T>({
  connection,
  workflowId,
  attached,
  ownsConnection,
}: {
  connection: LonghaulConnection
  workflowId: string
  attached: boolean
  ownsConnection: boolean
}): RunHandle<T> {
  return {
    workflowId,
    attached,
    connection,
    outcome: () => outcomeOf<T>(connection.client.workflow.getHandle(workflowId)),
    progress: () => queryProgress({ connection, workflowId }),
    watch: (options = {}) => watchRun<T>({ connection, workflowId, ...options }),
    close: () => (ownsConnection ? connection.close() : Promise.resolve()),
  }
}

/** Uses the caller's connection and leaves it open, or opens one from the environment. */
export async function resolveConnection(
  given: LonghaulConnection | undefined,
): Promise<{ connection: LonghaulConnection; ownsConnection: boolean }> {
  return given === undefined
    ? { connection: await connect(), ownsConnection: true }
    : { connection: given, ownsConnection: false }
}
