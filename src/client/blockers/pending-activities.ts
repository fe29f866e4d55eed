import type { Client, WorkflowExecutionDescription } from '@temporalio/client'
import type { ActivityHeartbeat } from '../../contracts/waits.types.ts'
import { workflowIds } from '../../contracts/workflow-ids.ts'
import { IS_OPEN, isNotFound, type LonghaulConnection, TRAIN_RUN } from '../connect.ts'
import { decodePayload, messageOf } from '../decode-payload.ts'

/** An activity that has not ended, as the server describes it. Times in ms since 1970. */
export interface PendingActivity {
  workflowId: string
  /** The server's name of it, for its commands. */
  activityId: string
  activity: string
  state: 'queued' | 'backing-off' | 'started' | 'paused'
  /** Since when an operator has it paused; null for every other state. */
  pausedMs: number | null
  /** From 1. */
  attempt: number
  /** Of this attempt. */
  scheduledMs: number
  startedMs: number | null
  /** Of this or an earlier attempt. */
  lastHeartbeatMs: number | null
  /** End of the attempt before this one. */
  lastEndMs: number | null
  /** When its back-off ends; null for every other state. */
  nextAttemptMs: number | null
  heartbeatTimeoutMs: number | null
  queue: string
  /** `pid@host` of the last attempt's worker. */
  worker: string | null
  heartbeat: ActivityHeartbeat | null
  lastFailure: FailureFacts | null
}

export interface FailureFacts {
  /** Stable code where the failure is one of ours; null for a time-out of Temporal's. */
  code: string | null
  message: string
}

/** A workflow task that is not completed yet. */
export interface PendingWorkflowTask {
  workflowId: string
  queue: string
  /** Of this attempt: the server counts anew whenever a worker has failed the task. */
  sinceMs: number
  attempt: number
  /** The first of the failures since the workflow last moved. @default null, also where its history does not say */
  failure?: TaskFailure | null
}

/** A worker's answer that it cannot play a workflow on. */
export interface TaskFailure {
  sinceMs: number
  message: string
}

type Description = WorkflowExecutionDescription['raw']
type PendingInfo = NonNullable<Description['pendingActivities']>[number]
type Timestamp = { seconds?: unknown; nanos?: number | null } | null | undefined

/** `temporal.api.enums.v1.PendingActivityState`. */
const STARTED = new Set([2, 3])
const PAUSED = new Set([4, 5])

interface ReadInput {
  client: Client
  workflowId: string
  nowMs: number
}

export function readActivities(input: ReadInput, description: Description): Promise<PendingActivity[]> {
  return Promise.all((description.pendingActivities ?? []).map((info) => readActivity(input, info)))
}

async function readActivity({ client, workflowId, nowMs }: ReadInput, info: PendingInfo): Promise<PendingActivity> {
  const scheduledMs = millis(info.scheduledTime) ?? nowMs
  const state = stateOf(info, nowMs)
  return {
    workflowId,
    activityId: info.activityId ?? '',
    activity: info.activityType?.name ?? 'an activity',
    state,
    pausedMs: millis(info.pauseInfo?.pauseTime),
    attempt: info.attempt ?? 1,
    scheduledMs,
    startedMs: millis(info.lastStartedTime),
    lastHeartbeatMs: millis(info.lastHeartbeatTime),
    lastEndMs: millis(info.lastAttemptCompleteTime),
    nextAttemptMs: state === 'backing-off' ? nextAttemptOf(info) : null,
    heartbeatTimeoutMs: millis(info.activityOptions?.heartbeatTimeout),
    queue: info.activityOptions?.taskQueue?.name ?? '',
    worker: info.lastWorkerIdentity === '' ? null : (info.lastWorkerIdentity ?? null),
    heartbeat: await readHeartbeat(client, info),
    lastFailure: await readFailure(client, info.lastFailure),
  }
}

function stateOf(info: PendingInfo, nowMs: number): PendingActivity['state'] {
  const state = Number(info.state)
  if (info.paused === true || PAUSED.has(state)) return 'paused'
  if (STARTED.has(state)) return 'started'
  return (nextAttemptOf(info) ?? 0) > nowMs ? 'backing-off' : 'queued'
}

function nextAttemptOf(info: PendingInfo): number | null {
  return millis(info.nextAttemptScheduleTime) ?? millis(info.scheduledTime)
}

/** Twice the longest pause between two attempts that a workflow asks for. */
const LONGEST_BACK_OFF_MS = 2 * 60_000

/** An operator has given it longer pauses between its attempts. */
export function isDelayed({ state, nextAttemptMs }: PendingActivity, nowMs: number): boolean {
  return state === 'backing-off' && (nextAttemptMs ?? 0) - nowMs > LONGEST_BACK_OFF_MS
}

/** Null also for an activity that is not ours or of another version: what it says is not for us. */
async function readHeartbeat(client: Client, info: PendingInfo): Promise<ActivityHeartbeat | null> {
  const payload = info.heartbeatDetails?.payloads?.[0]
  if (payload === undefined) return null
  const value = await decodePayload(client, payload)
  if (typeof value !== 'object' || value === null || !('wait' in value)) return null
  return value as ActivityHeartbeat
}

export async function readFailure(client: Client, failure: PendingInfo['lastFailure']): Promise<FailureFacts | null> {
  if (failure === null || failure === undefined) return null
  const message = await messageOf(client, failure)
  const code = failure.applicationFailureInfo?.type
  if (typeof code === 'string' && code !== '') return { code, message }
  const isTimeout = failure.timeoutFailureInfo !== null && failure.timeoutFailureInfo !== undefined
  return {
    code: null,
    message: `${message}${isTimeout ? ': its worker sent no heartbeat in time' : ''}`,
  }
}

function readWorkflowTask(workflowId: string, description: Description): PendingWorkflowTask | null {
  const task = description.pendingWorkflowTask
  if (task === null || task === undefined) return null
  return {
    workflowId,
    queue: description.executionConfig?.taskQueue?.name ?? '',
    sinceMs: millis(task.originalScheduledTime) ?? millis(task.scheduledTime) ?? 0,
    attempt: task.attempt ?? 1,
  }
}

/** The end of a history has at most these events after the task that failed. */
const LAST_EVENTS = 10

/** Only the first of several failures is an event of the history, and it stands at its end. */
async function readTaskFailure({
  client,
  namespace,
  workflowId,
}: {
  client: Client
  namespace: string
  workflowId: string
}): Promise<TaskFailure | null> {
  const { history } = await client.workflowService.getWorkflowExecutionHistoryReverse({
    namespace,
    execution: { workflowId },
    maximumPageSize: LAST_EVENTS,
  })
  let first: TaskFailure | null = null
  for (const { eventTime, workflowTaskFailedEventAttributes: failed, ...event } of history?.events ?? []) {
    if (event.workflowTaskCompletedEventAttributes) break
    if (!failed) continue
    // A worker with other keys has encrypted what it says.
    const message = failed.failure
      ? await messageOf(client, failed.failure).catch(() => UNREADABLE)
      : 'it does not say why'
    first = { sinceMs: millis(eventTime) ?? 0, message }
  }
  return first
}

const UNREADABLE =
  'its reason is encrypted with a key that is not here: all workers and commands need the same LONGHAUL_CODEC_KEYS'

/** Of a timestamp or a duration; null where it is absent or zero. */
export function millis(time: Timestamp): number | null {
  if (time === null || time === undefined) return null
  const value = Number(time.seconds ?? 0) * 1000 + Math.floor((time.nanos ?? 0) / 1e6)
  return value > 0 ? value : null
}

/** No child of the root as it runs now: the root before was terminated, or this one was reset. */
export interface EarlierWorkflow {
  workflowId: string
  /** Since when both have been open. */
  sinceMs: number
}

/** An open workflow of which a description shows nothing that will wake it; it may have a timer. */
export interface IdleWorkflow {
  workflowId: string
  runId: string
}

/** A workflow that an operator has paused in Temporal: the server gives it no task until it is unpaused. */
export interface PausedWorkflow {
  workflowId: string
  sinceMs: number
}

/** Everything open below one workflow. */
export interface RunPicture {
  activities: PendingActivity[]
  tasks: PendingWorkflowTask[]
  idle: IdleWorkflow[]
  /** Open workflows of an earlier execution of the root, without those below them. The root waits until they have ended. */
  earlier: EarlierWorkflow[]
  paused: PausedWorkflow[]
  /** Open workflows that were looked at. */
  workflows: number
  /** Open workflows beyond the limit. */
  notLookedAt: number
}

interface WalkInput {
  connection: LonghaulConnection
  workflowId: string
  /** Workflows described at most, from the root down. */
  maxWorkflows: number
  nowMs: number
  /** Looks for what an earlier execution of the root has open also after the end of the root. @default false */
  evenAfterEnd?: boolean
}

/** Concurrent calls: a description costs the server a few milliseconds, and other clients need it too. */
const CONCURRENT = 16

/**
 * Describes a run's open workflows level by level. The server answers for all of them, so workers may be down. A run of paper
 * scale has thousands of episodes: past the limit they are counted, not asked.
 */
export async function walkRun(input: WalkInput): Promise<RunPicture> {
  const picture: RunPicture = {
    activities: [],
    tasks: [],
    idle: [],
    earlier: [],
    paused: [],
    workflows: 0,
    notLookedAt: 0,
  }
  const seen: OpenSince = new Map()
  await walk(input, [input.workflowId], picture, seen)
  const rootSinceMs = seen.get(input.workflowId) ?? null
  if (rootSinceMs === null && input.evenAfterEnd !== true) return picture
  const left = await listUnseen(input, seen, input.maxWorkflows - picture.workflows)
  picture.earlier = left
    .filter(({ workflowId: id }) => !left.some(({ workflowId: above }) => id.startsWith(`${above}/`)))
    .map(({ workflowId, sinceMs }) => ({ workflowId, sinceMs: Math.max(sinceMs, rootSinceMs ?? 0) }))
  await walk(
    input,
    left.map((one) => one.workflowId),
    picture,
    seen,
  )
  return picture
}

/**
 * Open workflows below the root's id that are not its children. The index lags, so one may have closed, or may be a new child.
 */
async function listUnseen(
  { connection: { client }, workflowId }: WalkInput,
  seen: OpenSince,
  most: number,
): Promise<EarlierWorkflow[]> {
  const found: EarlierWorkflow[] = []
  if (most <= 0) return found
  const above = await nameOfChildren(client, workflowId)
  // A quote would end the query's text.
  if (above.includes("'")) return found
  const query = `${IS_OPEN} AND WorkflowId STARTS_WITH '${above}/'`
  for await (const info of client.workflow.list({ query, pageSize: 1_000 })) {
    if (seen.has(info.workflowId)) continue
    found.push({ workflowId: info.workflowId, sinceMs: info.startTime.getTime() })
    if (found.length === most) break
  }
  return found
}

/** Begins the ids of a root's children, which are named after its run. A root that a person started may have any id of its own. */
async function nameOfChildren(client: Client, workflowId: string): Promise<string> {
  try {
    const { type, typedSearchAttributes, parentExecution } = await client.workflow.getHandle(workflowId).describe()
    const run = typedSearchAttributes.get(TRAIN_RUN)
    if (run === undefined || parentExecution !== undefined) return workflowId
    if (type === 'trainAgent') return workflowIds.train(run)
    return type === 'evaluate' ? workflowIds.evaluation(run) : workflowId
  } catch (error) {
    if (isNotFound(error)) return workflowId
    throw error
  }
}

/** Since when each workflow that was looked at is open, by id; null if it has closed. */
type OpenSince = Map<string, number | null>

async function walk(
  { connection, maxWorkflows, nowMs }: WalkInput,
  from: readonly string[],
  picture: RunPicture,
  seen: OpenSince,
): Promise<void> {
  let level = [...from]
  while (level.length > 0) {
    const room = Math.max(0, maxWorkflows - picture.workflows)
    const chosen = level.slice(0, room)
    picture.notLookedAt += level.length - chosen.length
    picture.workflows += chosen.length
    const next: string[] = []
    const queue = [...chosen]
    const look = async (): Promise<void> => {
      for (let id = queue.shift(); id !== undefined; id = queue.shift()) {
        const open = await lookAt({ connection, workflowId: id, nowMs, picture })
        seen.set(id, open.sinceMs)
        next.push(...open.children)
      }
    }
    await Promise.all(Array.from({ length: CONCURRENT }, look))
    level = next.filter((id) => !seen.has(id))
  }
}

/** `WORKFLOW_EXECUTION_STATUS_PAUSED` of the protocol. */
const PAUSED_WORKFLOW = 8

interface OpenWorkflow {
  children: string[]
  /** Null if it has closed. */
  sinceMs: number | null
}

async function lookAt({
  connection: { client, namespace },
  workflowId,
  nowMs,
  picture,
}: Omit<WalkInput, 'maxWorkflows' | 'evenAfterEnd'> & { picture: RunPicture }): Promise<OpenWorkflow> {
  try {
    const description = await client.workflowService.describeWorkflowExecution({ namespace, execution: { workflowId } })
    picture.activities.push(...(await readActivities({ client, workflowId, nowMs }, description)))
    const task = readWorkflowTask(workflowId, description)
    if (task !== null) {
      const failure = task.attempt > 1 ? await readTaskFailure({ client, namespace, workflowId }) : null
      picture.tasks.push({ ...task, failure })
    }
    const info = description.workflowExecutionInfo
    const pausedTime = description.workflowExtendedInfo?.pauseInfo?.pausedTime
    const isPaused = Number(info?.status) === PAUSED_WORKFLOW
    if (isPaused) {
      picture.paused.push({ workflowId, sinceMs: millis(pausedTime) ?? millis(info?.startTime) ?? 0 })
    }
    const isOpen = info?.closeTime === null || info?.closeTime === undefined
    const runId = info?.execution?.runId ?? ''
    if (isOpen && !isPaused && task === null && isIdle(description)) picture.idle.push({ workflowId, runId })
    return {
      children: (description.pendingChildren ?? []).flatMap(({ workflowId: id }) =>
        typeof id === 'string' ? [id] : [],
      ),
      sinceMs: isOpen ? (millis(info?.startTime) ?? 0) : null,
    }
  } catch (error) {
    // It closed between the two calls, or is not started yet: its parent's state tells which.
    if (isNotFound(error)) return { children: [], sinceMs: null }
    throw error
  }
}

function isIdle({ pendingActivities, pendingChildren, pendingNexusOperations }: Description): boolean {
  return [pendingActivities, pendingChildren, pendingNexusOperations].every((pending) => (pending ?? []).length === 0)
}

type Page = Awaited<ReturnType<Client['workflowService']['getWorkflowExecutionHistoryReverse']>>

/** An open workflow that nothing will wake. */
export interface StuckWorkflow {
  workflowId: string
  /** Of its last event, ms since 1970. */
  sinceMs: number
}

/** Histories read in one look: a paused run has thousands. */
const MOST_HISTORIES = 200
/** Read together. If one of them is of a stuck workflow, no further ones are read, because its remedy is the same for all. */
const HISTORIES_AT_ONCE = 8
const PAGE_EVENTS = 200
/** An episode of 500 turns in steps of one has 3,000 events. */
const MOST_EVENTS = 5_000

/**
 * Those idle workflows that have no open timer either. Every wait of a workflow has a timer, so such a workflow has lost its next step:
 * after an older database was restored, a worker that still runs may hold more in memory than the server's history, and answers
 * its next workflow task with nothing.
 */
export async function findStuck(
  connection: LonghaulConnection,
  idle: readonly IdleWorkflow[],
  isOld: (sinceMs: number) => boolean,
): Promise<StuckWorkflow[]> {
  for (let from = 0; from < Math.min(idle.length, MOST_HISTORIES); from += HISTORIES_AT_ONCE) {
    const some = idle.slice(from, from + HISTORIES_AT_ONCE)
    const found = await Promise.all(some.map((one) => lookAtEnd(connection, one, isOld)))
    const stuck = found.filter((one) => one !== null)
    if (stuck.length > 0) return stuck
  }
  return []
}

/** Reads the history from its end, where an open timer almost always is. */
async function lookAtEnd(
  { client, namespace }: LonghaulConnection,
  { workflowId, runId }: IdleWorkflow,
  isOld: (sinceMs: number) => boolean,
): Promise<StuckWorkflow | null> {
  const ended = new Set<string>()
  let sinceMs: number | null = null
  let nextPageToken: Uint8Array | null = null
  for (let read = 0; read < MOST_EVENTS; ) {
    const page: Page = await client.workflowService.getWorkflowExecutionHistoryReverse({
      namespace,
      execution: { workflowId, runId },
      maximumPageSize: PAGE_EVENTS,
      ...(nextPageToken === null ? {} : { nextPageToken }),
    })
    const events = page.history?.events ?? []
    sinceMs ??= millis(events[0]?.eventTime)
    // Its first workflow task is delayed, or something happens at this moment.
    if (sinceMs === null || (read === 0 && events.length < 2) || !isOld(sinceMs)) return null
    for (const event of events) {
      const end = event.timerFiredEventAttributes ?? event.timerCanceledEventAttributes
      if (end) ended.add(end.timerId ?? '')
      const timer = event.timerStartedEventAttributes
      if (timer && !ended.has(timer.timerId ?? '')) return null
    }
    read += events.length
    nextPageToken = page.nextPageToken ?? null
    if (nextPageToken === null || nextPageToken.length === 0) return { workflowId, sinceMs }
  }
  return null
}
