/** The real histories of a run, fetched from its server, with their sizes. */
import type { Client } from '@temporalio/client'
import proto from '@temporalio/proto'
import type { History } from './history-builder.ts'

export interface RunHistory {
  workflowId: string
  type: string
  history: History
  events: number
  /** Encoded size on the server. */
  bytes: number
  largestPayload: { bytes: number; where: string }
}

/** Histories of a workflow, its children and their continued runs, root first. */
export async function fetchRunHistories(client: Client, rootId: string): Promise<RunHistory[]> {
  const waiting: { workflowId: string; runId?: string }[] = [{ workflowId: rootId }]
  const fetched: RunHistory[] = []
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    const { workflowId, runId } = next
    const history = (await client.workflow.getHandle(workflowId, runId).fetchHistory()) as History
    fetched.push(weigh(workflowId, history))
    for (const event of history.events) {
      const child = event.childWorkflowExecutionStartedEventAttributes?.workflowExecution
      if (child?.workflowId) waiting.push({ workflowId: child.workflowId, runId: child.runId ?? '' })
      const continued = event.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId
      if (continued) waiting.push({ workflowId, runId: continued })
    }
  }
  return fetched
}

/** Attempt numbers of the activities of a type, ordered by their recorded starts. */
export function attemptsOf({ history }: RunHistory, activityType?: string): number[] {
  const typeOf = new Map(
    history.events.flatMap(({ eventId, activityTaskScheduledEventAttributes: scheduled }) =>
      scheduled ? [[String(eventId), scheduled.activityType?.name ?? ''] as const] : [],
    ),
  )
  return history.events.flatMap(({ activityTaskStartedEventAttributes: started }) => {
    if (!started) return []
    const isWanted = activityType === undefined || typeOf.get(String(started.scheduledEventId)) === activityType
    return isWanted ? [started.attempt ?? 1] : []
  })
}

function weigh(workflowId: string, history: History): RunHistory {
  const type = history.events[0]?.workflowExecutionStartedEventAttributes?.workflowType?.name ?? 'unknown'
  const bytes = proto.temporal.api.history.v1.History.encode(history).finish().byteLength
  let largestPayload = { bytes: 0, where: 'none' }
  for (const event of history.events) {
    for (const size of payloadSizes(event)) {
      if (size > largestPayload.bytes)
        largestPayload = { bytes: size, where: `${workflowId} event ${String(event.eventId)}` }
    }
  }
  return { workflowId, type, history, events: history.events.length, bytes, largestPayload }
}

/** A payload is any object with `metadata` and bytes called `data`, at any depth: inputs, results, details, memos, summaries. */
function* payloadSizes(value: unknown): Generator<number> {
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return
  const { metadata, data } = value as { metadata?: unknown; data?: unknown }
  if (metadata !== undefined && data instanceof Uint8Array) yield data.byteLength
  else for (const part of Object.values(value)) yield* payloadSizes(part)
}
