import type { Client } from '@temporalio/client'
import type { ExecutionHistory, HistoryActivity, HistoryMark } from '../contracts/histories.types.ts'
import { millis, readActivities, readFailure } from './blockers/pending-activities.ts'
import { isNotFound, type LonghaulConnection } from './connect.ts'
import { decodePayload } from './decode-payload.ts'

type HistoryAnswer = Awaited<ReturnType<Client['workflowService']['getWorkflowExecutionHistory']>>
type Event = NonNullable<NonNullable<HistoryAnswer['history']>['events']>[number]

/** An episode of 500 turns in steps of one has 3,000 events. */
const MAX_EVENTS = 5_000
/** The server sends fewer where it likes. */
const PAGE_EVENTS = 1_000
/** A message of a failure is read by people: what is longer is a log. */
const MESSAGE_CHARS = 2_000

export interface ReadHistoryInput {
  connection: LonghaulConnection
  workflowId: string
  /** @default the newest execution */
  runId?: string
  /** For all calls together. */
  deadlineMs: number
  /** Of the beginning; the rest is counted. @default 5_000 */
  maxEvents?: number
}

/**
 * An execution as its server tells it: activities with their queue, attempts and failures. What is open is taken from its description,
 * for a history learns of an attempt when it ends. No time is derived: what the server does not say is null.
 * @returns null for an execution that the server has not, or not any more
 */
export async function readHistory(input: ReadHistoryInput): Promise<ExecutionHistory | null> {
  try {
    return await input.connection.client.withDeadline(input.deadlineMs, () => read(input))
  } catch (error) {
    if (isNotFound(error)) return null
    throw error
  }
}

async function read({
  connection,
  workflowId,
  runId,
  maxEvents = MAX_EVENTS,
}: ReadHistoryInput): Promise<ExecutionHistory> {
  const { client, namespace } = connection
  const description = await client.workflow.getHandle(workflowId, runId).describe()
  const execution = { workflowId, runId: description.runId }
  const events: Event[] = []
  let nextPageToken: Uint8Array | null = null
  do {
    const page: HistoryAnswer = await client.workflowService.getWorkflowExecutionHistory({
      namespace,
      execution,
      maximumPageSize: Math.min(PAGE_EVENTS, maxEvents - events.length),
      ...(nextPageToken === null ? {} : { nextPageToken }),
    })
    events.push(...(page.history?.events ?? []))
    nextPageToken = page.nextPageToken ?? null
  } while (nextPageToken !== null && nextPageToken.length > 0 && events.length < maxEvents)
  // A page holds whole transactions, also where it was asked for fewer events.
  events.splice(maxEvents)
  const { activities, marks } = await readEvents(connection, events)
  const open = await readActivities({ client, workflowId, nowMs: Date.now() }, description.raw)
  for (const [at, info] of (description.raw.pendingActivities ?? []).entries()) {
    const known = activities.get(info.activityId ?? '')
    const now = open[at]
    if (known === undefined || known.closedMs !== null || now === undefined) continue
    const { state, attempt, startedMs, worker, lastFailure } = now
    // Of an attempt that has not begun yet it has the beginning of the one before.
    const began = state === 'started' ? startedMs : null
    Object.assign(known, { state, attempt, startedMs: began, worker, failure: short(lastFailure) })
  }
  return {
    workflowId,
    runId: description.runId,
    status: description.status.name,
    startedMs: description.startTime.getTime(),
    closedMs: description.closeTime?.getTime() ?? null,
    activities: [...activities.values()],
    marks,
    events: Math.max(description.historyLength, events.length),
    eventsRead: events.length,
  }
}

/** Activities by their id in the history. */
async function readEvents(
  { client }: LonghaulConnection,
  events: readonly Event[],
): Promise<{ activities: Map<string, HistoryActivity>; marks: HistoryMark[] }> {
  const activities = new Map<string, HistoryActivity>()
  const byEvent = new Map<string, HistoryActivity>()
  const marks: HistoryMark[] = []
  for (const event of events) {
    const atMs = millis(event.eventTime)
    if (atMs === null) continue
    const scheduled = event.activityTaskScheduledEventAttributes
    if (scheduled) {
      const summary = event.userMetadata?.summary
      const said = summary === null || summary === undefined ? '' : await decodePayload(client, summary)
      const activity: HistoryActivity = {
        activity: scheduled.activityType?.name ?? 'an activity',
        queue: scheduled.taskQueue?.name ?? '',
        summary: typeof said === 'string' ? said.slice(0, MESSAGE_CHARS) : '',
        scheduledMs: atMs,
        startedMs: null,
        closedMs: null,
        worker: null,
        attempt: 0,
        state: 'queued',
        failure: null,
      }
      activities.set(scheduled.activityId ?? '', activity)
      byEvent.set(String(event.eventId), activity)
      continue
    }
    const started = event.activityTaskStartedEventAttributes
    if (started) {
      const activity = byEvent.get(String(started.scheduledEventId))
      if (activity === undefined) continue
      const { attempt, identity, lastFailure } = started
      const failure = short(await readFailure(client, lastFailure))
      Object.assign(activity, {
        state: 'started',
        startedMs: atMs,
        attempt: attempt ?? 1,
        worker: identity ?? null,
        failure,
      })
      continue
    }
    const closed = closingOf(event)
    if (closed !== null) {
      const activity = byEvent.get(closed.scheduledEventId)
      if (activity === undefined) continue
      activity.closedMs = atMs
      activity.state = closed.state
      activity.failure = short(await readFailure(client, closed.failure)) ?? activity.failure
      continue
    }
    const mark = markOf(event)
    if (mark !== null) marks.push({ ...mark, atMs })
  }
  return { activities, marks }
}

interface Closing {
  scheduledEventId: string
  state: HistoryActivity['state']
  failure: NonNullable<Event['activityTaskFailedEventAttributes']>['failure']
}

function closingOf({
  activityTaskCompletedEventAttributes: completed,
  activityTaskFailedEventAttributes: failed,
  activityTaskTimedOutEventAttributes: timedOut,
  activityTaskCanceledEventAttributes: cancelled,
}: Event): Closing | null {
  if (completed) return { scheduledEventId: String(completed.scheduledEventId), state: 'completed', failure: null }
  if (failed) return { scheduledEventId: String(failed.scheduledEventId), state: 'failed', failure: failed.failure }
  if (timedOut)
    return { scheduledEventId: String(timedOut.scheduledEventId), state: 'timed-out', failure: timedOut.failure }
  if (cancelled) return { scheduledEventId: String(cancelled.scheduledEventId), state: 'cancelled', failure: null }
  return null
}

function markOf({
  workflowExecutionSignaledEventAttributes: signal,
  workflowTaskFailedEventAttributes: failed,
  workflowTaskTimedOutEventAttributes: timedOut,
  workflowExecutionCancelRequestedEventAttributes: cancel,
}: Event): Pick<HistoryMark, 'what' | 'note'> | null {
  if (signal) return { what: 'signal', note: signal.signalName ?? '' }
  if (failed) return { what: 'workflow-task-failed', note: (failed.failure?.message ?? '').slice(0, MESSAGE_CHARS) }
  if (timedOut) return { what: 'workflow-task-timed-out', note: '' }
  if (cancel) return { what: 'cancel-asked', note: (cancel.cause ?? '').slice(0, MESSAGE_CHARS) }
  return null
}

function short(failure: HistoryActivity['failure']): HistoryActivity['failure'] {
  return failure === null ? null : { code: failure.code, message: failure.message.slice(0, MESSAGE_CHARS) }
}
