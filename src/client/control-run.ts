import { randomUUID } from 'node:crypto'
import {
  QueryNotRegisteredError,
  type WorkflowExecutionDescription,
  WorkflowUpdateFailedError,
} from '@temporalio/client'
import { isLonghaulError, LonghaulError } from '../contracts/errors.ts'
import type { PauseMode, RolloutReport, RunProgress, SteeredRun, WorkCount } from '../contracts/workflows.types.ts'
import { askWorkflow, CALL_TIMEOUT_MS, isNotFound, isOpen, type LonghaulConnection } from './connect.ts'
import { isDelayed, type PendingActivity, walkRun } from './blockers/pending-activities.ts'

export interface RunAddress {
  connection: LonghaulConnection
  workflowId: string
}

/** Result of a control command. */
export interface SteerAnswer {
  workflowId: string
  /** Null while unknown, because no worker has answered. */
  changed: boolean | null
  /** True if the server has recorded the request and no worker has executed it yet. */
  pending: boolean
  /** The resulting state; null while no worker answers. */
  progress: RunProgress | null
  note: string | null
}

export interface SteerInput extends RunAddress {
  /** Changes nothing, and says what would change. @default false */
  dryRun?: boolean
}

/**
 * No new work starts until `resumeRun`. With `soft` open work continues; with `hard` episodes stop after their current turns. Pausing
 * twice changes nothing. If no worker answers, the server records the request and a worker executes it later.
 */
export function pauseRun({ mode = 'soft', ...input }: SteerInput & { mode?: PauseMode }): Promise<SteerAnswer> {
  return steer({
    ...input,
    update: 'pause',
    request: mode,
    signal: { do: 'pause', mode },
    wouldChange: ({ pause }) => pause !== mode,
  })
}

export function resumeRun(input: SteerInput): Promise<SteerAnswer> {
  return steer({ ...input, update: 'resume', signal: { do: 'resume' }, wouldChange: ({ paused }) => paused })
}

/** Ends the open reinforcement stage, and every later one, after this iteration, from 1. The run then continues with whatever follows the stages. */
export function stopRunAfterIteration({
  iteration,
  ...input
}: SteerInput & { iteration: number }): Promise<SteerAnswer> {
  return steer({
    ...input,
    update: 'stopAfterIteration',
    request: { iteration },
    signal: { do: 'stopAfterIteration', iteration },
    wouldChange: ({ stopAfterIteration }) => stopAfterIteration !== iteration,
  })
}

/** Limits concurrent tasks (patches of a grading); null: the recipe's limit. */
export function setRunLimits({
  concurrency,
  ...input
}: SteerInput & { concurrency: number | null }): Promise<SteerAnswer> {
  return steer({
    ...input,
    update: 'setLimits',
    request: { concurrency },
    signal: { do: 'setLimits', concurrency },
    wouldChange: ({ limits }) => limits.concurrency !== concurrency,
  })
}

/** Plays a task of the open rollout again: cancels it if it is open, or replaces its lost episodes if it has ended. */
export function requeueTask({ task, ...input }: SteerInput & { task: string }): Promise<SteerAnswer> {
  return steer({ ...input, update: 'requeue', request: { task }, signal: null, wouldChange: () => null })
}

interface SteerCall extends SteerInput {
  update: string
  request?: unknown
  /** Equivalent signal for a run whose worker does not answer; null: needs a worker. */
  signal: object | null
  wouldChange: (progress: RunProgress) => boolean | null
}

async function steer(call: SteerCall): Promise<SteerAnswer> {
  const { connection, workflowId, update, request, signal, dryRun = false, wouldChange } = call
  const address = { connection, workflowId }
  if (dryRun) {
    const progress = await queryProgress(address)
    const changed = progress === null ? null : wouldChange(progress)
    const note = progress === null ? `${NO_ANSWER}, so it is unknown what would change` : null
    return { workflowId, changed, pending: false, progress, note }
  }
  const handle = connection.client.workflow.getHandle(workflowId)
  try {
    const { changed, note, ...progress } = await called(address, () =>
      handle.executeUpdate<SteeredRun, [unknown]>(update, { args: [request] }),
    )
    return { workflowId, changed, pending: false, progress, note }
  } catch (error) {
    if (!isLonghaulError(error) || error.code !== 'Temporal.Unreachable') throw error
    if (signal === null) throw notRecorded(update, error)
    // The server has recorded it. The update may still be executed too, which changes nothing more.
    await called(address, () => handle.signal('steer', signal))
    const note = `${NO_ANSWER}: the request is recorded and takes effect as soon as a control worker is back`
    return { workflowId, changed: null, pending: true, progress: null, note }
  }
}

/** The server keeps signals, but drops an update after a while without a worker. */
function notRecorded(update: string, cause: LonghaulError): LonghaulError {
  return new LonghaulError({
    code: 'Temporal.Unreachable',
    message: `${NO_ANSWER}, and ${update} needs one: the request is not recorded. Start a control worker (longhaul worker --role control) and repeat the request`,
    details: cause.details,
    cause,
  })
}

const NO_ANSWER = 'no control worker has answered'

/** Result of a cancel. */
export interface CancelAnswer {
  workflowId: string
  changed: boolean
  note: string | null
}

/**
 * Requests the end of the run, which the server records even without a worker, and frees it of what people did to it in Temporal. Does
 * nothing for a run that has ended, or was cancelled before, of which nothing is held or left.
 */
export async function requestCancel({ connection, workflowId, dryRun = false }: SteerInput): Promise<CancelAnswer> {
  const address = { connection, workflowId }
  const found = await called(address, () => connection.client.workflow.getHandle(workflowId).describe())
  const isOver = !isOpen(found.status.name) || isClosing(found)
  if (dryRun && !isOver) return { workflowId, changed: true, note: null }
  const released = dryRun ? null : await (isOver ? releaseHeld(address) : cancelRun(address))
  const note = noteOf(released)
  if (!isOver || note !== null) return { workflowId, changed: true, note }
  return {
    workflowId,
    changed: false,
    note: isOpen(found.status.name)
      ? 'it was cancelled before and is closing its sandboxes'
      : `it has ended already: ${found.status.name.toLowerCase()}`,
  }
}

/** Null if nobody has held or left anything, as far as the server says. */
function noteOf(released: Released | null): string | null {
  const { held = 0, left = 0 } = released ?? {}
  const notes = [
    ...(held > 0 ? [`${held} of its parts that were held in Temporal go on, so that it can close`] : []),
    ...(left > 0 ? [`${left} of its parts that a reset or an earlier execution had left are cancelled too`] : []),
  ]
  return notes.length === 0 ? null : notes.join('; ')
}

/** Whether a workflow was cancelled and is still open: it closes its sandboxes, and then it ends. */
export function isClosing({ status, raw }: WorkflowExecutionDescription): boolean {
  return isOpen(status.name) && raw.workflowExtendedInfo?.cancelRequested === true
}

/**
 * Requests the end of the run, which closes its sandboxes and releases its leases. Does not wait for it.
 * @param input.reason kept in the run's history
 * @returns what people had done to its parts in Temporal; null if the server did not tell
 */
export async function cancelRun({
  connection,
  workflowId,
  reason,
}: RunAddress & { reason?: string }): Promise<Released | null> {
  const { client, namespace } = connection
  await called({ connection, workflowId }, () =>
    reason === undefined
      ? client.workflow.getHandle(workflowId).cancel()
      : client.workflowService.requestCancelWorkflowExecution({
          namespace,
          workflowExecution: { workflowId },
          requestId: randomUUID(),
          reason,
        }),
  )
  return releaseHeld({ connection, workflowId })
}

/** As many as `findBlockers` looks at. */
const MAX_WORKFLOWS = 1_000

/** At most the first pause of the workflow's own retries. */
const HALF_A_SECOND = { nanos: 500_000_000 }

/** What a person has done to parts of a run, which would stay open after the run was cancelled. */
export interface Released {
  /** Paused workflows, paused activities, and activities whose next attempt was put off. They go on. */
  held: number
  /** Workflows that a reset or an earlier execution has left, and that no open parent will cancel. They are cancelled. */
  left: number
}

/**
 * Frees a cancelled run of what people did to it with the server's own commands. It still closes its sandboxes, records its episodes and
 * releases its policies: none of that can be cancelled, so whoever holds it keeps the run open. And a parent that was reset does not know
 * its children before it starts them again: cancelled earlier, it would leave them playing.
 * @returns null if the server did not tell
 */
async function releaseHeld({ connection, workflowId }: RunAddress): Promise<Released | null> {
  const { client, namespace } = connection
  try {
    return await client.withDeadline(Date.now() + CALL_TIMEOUT_MS, async () => {
      const nowMs = Date.now()
      const look = { connection, workflowId, maxWorkflows: MAX_WORKFLOWS, nowMs, evenAfterEnd: true }
      const { activities, paused, earlier } = await walkRun(look)
      const left: string[] = []
      await Promise.all(
        earlier.map(async ({ workflowId: id }) => {
          if (await isLeft(connection, id)) left.push(id)
        }),
      )
      const held = activities.filter((one) => one.state === 'paused' || isDelayed(one, nowMs))
      await Promise.all([
        ...left.map((id) => unlessEnded(client.workflow.getHandle(id).cancel())),
        ...paused.map((one) =>
          unlessEnded(client.workflowService.unpauseWorkflowExecution({ namespace, workflowId: one.workflowId })),
        ),
        ...held.map((one) => unlessEnded(release(connection, one))),
      ])
      return { held: paused.length + held.length, left: left.length }
    })
  } catch {
    // The request to end the run is recorded. What is held is named by its blockers.
    return null
  }
}

/** Whether it is open and no open parent will cancel it. The list of open workflows lags, and shows new children too. */
async function isLeft({ client }: LonghaulConnection, workflowId: string): Promise<boolean> {
  const stateOf = async (id: string, runId?: string) => {
    try {
      const { status, parentExecution } = await client.workflow.getHandle(id, runId).describe()
      return { isOpen: isOpen(status.name), parent: parentExecution }
    } catch (error) {
      if (isNotFound(error)) return { isOpen: false, parent: undefined }
      throw error
    }
  }
  const { isOpen: isHere, parent } = await stateOf(workflowId)
  if (!isHere || parent === undefined) return isHere
  return !(await stateOf(parent.workflowId ?? '', parent.runId ?? '')).isOpen
}

function release(
  { client, namespace }: LonghaulConnection,
  { workflowId, activityId, state }: PendingActivity,
): Promise<unknown> {
  const named = { namespace, execution: { workflowId }, id: activityId }
  if (state === 'paused') return client.workflowService.unpauseActivity(named)
  return client.workflowService.updateActivityOptions({
    ...named,
    activityOptions: { retryPolicy: { initialInterval: HALF_A_SECOND, maximumInterval: HALF_A_SECOND } },
    updateMask: { paths: ['retry_policy.initial_interval', 'retry_policy.maximum_interval'] },
  })
}

/** What has ended since the look is held no more. */
async function unlessEnded(call: Promise<unknown>): Promise<void> {
  try {
    await call
  } catch (error) {
    if (!isNotFound(error)) throw error
  }
}

/** Reason of the newest execution's cancel; null without a cancel or a reason. */
export async function cancelReasonOf({ connection, workflowId }: RunAddress): Promise<string | null> {
  const { client, namespace } = connection
  const { history } = await called({ connection, workflowId }, () =>
    client.workflowService.getWorkflowExecutionHistoryReverse({
      namespace,
      execution: { workflowId },
      // The request is among the last events: what follows it closes children, at most a few hundred.
      maximumPageSize: 1000,
    }),
  )
  const asked = history?.events?.find((event) => event.workflowExecutionCancelRequestedEventAttributes)
  return asked?.workflowExecutionCancelRequestedEventAttributes?.cause || null
}

/** The run's own report; null while no worker answers. Parts of a run have other reports and count as null. */
export async function queryProgress(address: RunAddress): Promise<RunProgress | null> {
  const progress = await query<Partial<RunProgress>>(address)
  return typeof progress?.phase === 'string' ? (progress as RunProgress) : null
}

/** Progress of a rollout by its last part; null while no worker answers and after its end. */
export async function queryRollout({ connection, workflowId }: RunAddress): Promise<RolloutReport | null> {
  let report: RolloutReport | null = null
  for (let next: string | undefined = workflowId; next !== undefined; next = report.continuedIn) {
    const answer: RolloutReport | null = await query<RolloutReport>({ connection, workflowId: next }).catch(() => null)
    // A part that is about to start is unknown so far; the part before it has the same counts.
    if (answer === null) break
    report = answer
  }
  return report
}

/** Progress of a gate or one of its parts; null while no worker answers, for gates of earlier versions, and after its end. */
export function queryCount(address: RunAddress): Promise<WorkCount | null> {
  return query<WorkCount>(address).catch(() => null)
}

async function query<T>(address: RunAddress): Promise<T | null> {
  try {
    return await askWorkflow<T>(address, 'progress')
  } catch (error) {
    if (isNotFound(error)) throw unknownRun(address.workflowId, error)
    if (error instanceof QueryNotRegisteredError || isCallFailure(error)) return null
    throw error
  }
}

async function called<T>({ connection, workflowId }: RunAddress, call: () => Promise<T>): Promise<T> {
  try {
    return await connection.client.withDeadline(Date.now() + CALL_TIMEOUT_MS, call)
  } catch (error) {
    if (error instanceof WorkflowUpdateFailedError) {
      throw new LonghaulError({ code: 'Config.Invalid', message: error.cause?.message ?? error.message, cause: error })
    }
    if (isNotFound(error)) throw unknownRun(workflowId, error)
    if (isCallFailure(error)) {
      throw new LonghaulError({
        code: 'Temporal.Unreachable',
        message: `The run did not answer within ${CALL_TIMEOUT_MS / 1000} s: is a control worker running (longhaul worker --role control)?`,
        details: { workflowId },
        cause: error,
      })
    }
    throw error
  }
}

function unknownRun(workflowId: string, cause: unknown): LonghaulError {
  return new LonghaulError({
    code: 'Config.NotFound',
    message: `No run under way is called ${workflowId}`,
    cause,
  })
}

/** A call that was not answered, wherever the SDK puts the gRPC status (4 deadline, 9 no poller, 14 unavailable). */
function isCallFailure(error: unknown): boolean {
  for (let link: unknown = error; link instanceof Error; link = link.cause) {
    if ([1, 4, 9, 14].includes(Number((link as { code?: unknown }).code))) return true
    if (link.name === 'WorkflowUpdateRPCTimeoutOrCancelledError') return true
  }
  return false
}
