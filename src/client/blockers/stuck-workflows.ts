import type { Client } from '@temporalio/client'
import type { LonghaulConnection } from '../connect.ts'
import { type IdleWorkflow, millis } from './pending-activities.ts'

type Page = Awaited<ReturnType<Client['workflowService']['getWorkflowExecutionHistoryReverse']>>

/** An open workflow that nothing will wake. */
export interface StuckWorkflow {
  workflowId: string
  /** Of its last event, ms since 1970. */
  sinceMs: number
}

/** Histories read in one look. One of them is enough for the remedy, and a paused run has thousands. */
const MOST_HISTORIES = 8
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
  const found = await Promise.all(idle.slice(0, MOST_HISTORIES).map((one) => lookAtEnd(connection, one, isOld)))
  return found.filter((one) => one !== null)
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
