/**
 * Records histories for `test/replay/histories/` from a Temporal server:
 *
 *   node test/support/record-histories.ts [--address localhost:7233] [--namespace default] [--per-type 2] WORKFLOW_ID…
 *
 * Follows children and continue-as-new. Keeps the smallest few closed histories of each type, if possible with different courses, so
 * that the folder stays small. Blanks stack traces and worker identities, because they name machines and paths.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { gzipSync } from 'node:zlib'
import { Client, Connection } from '@temporalio/client'
import type { History } from './history-builder.ts'
import { describeHistory, HISTORIES, historyToJson } from './replay.ts'

export interface RecordHistoriesInput {
  client: Client
  workflowIds: string[]
  /** Number of histories to keep for each workflow type. */
  perType: number
  folder?: string
}

/** @returns the files written */
export async function recordHistories({
  client,
  workflowIds,
  perType,
  folder = HISTORIES,
}: RecordHistoriesInput): Promise<string[]> {
  const histories = await fetchTree(client, workflowIds)
  const byType = Map.groupBy(histories, (history) => describeHistory('fetched', history).type)
  mkdirSync(folder, { recursive: true })
  const written: string[] = []
  for (const [type, ofType] of byType) {
    for (const history of chooseFew(ofType, perType)) {
      const json = JSON.stringify(historyToJson(history), blankTraces)
      const name = `${type}-${createHash('sha256').update(json).digest('hex').slice(0, 8)}.json.gz`
      writeFileSync(join(folder, name), gzipSync(json, { level: 9 }))
      written.push(name)
    }
  }
  return written
}

/** Prefers different courses (by their kinds of events), then small histories. */
function chooseFew(histories: History[], count: number): History[] {
  const bySize = histories.toSorted((a, b) => a.events.length - b.events.length)
  const ofEachCourse = [...Map.groupBy(bySize, courseOf).values()].flatMap(([smallest]) => smallest ?? [])
  const others = bySize.filter((history) => !ofEachCourse.includes(history))
  return [...ofEachCourse, ...others].slice(0, count)
}

function courseOf(history: History): string {
  const kinds = new Set(history.events.map(({ eventType }) => eventType ?? 0))
  return [...kinds].toSorted((a, b) => a - b).join(' ')
}

function blankTraces(key: string, value: unknown): unknown {
  if (typeof value !== 'string') return value
  if (key === 'stackTrace') return ''
  // Sticky task queues are named after the worker's process and host.
  return key === 'identity' || (key === 'name' && /^\d+@/.test(value)) ? 'recorded' : value
}

/** Breadth-first over children and continued runs, without open executions. */
async function fetchTree(client: Client, roots: string[]): Promise<History[]> {
  const waiting: { workflowId: string; runId?: string }[] = roots.map((workflowId) => ({ workflowId }))
  const seen = new Set<string>()
  const closed: History[] = []
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    const history = (await client.workflow.getHandle(next.workflowId, next.runId).fetchHistory()) as History
    const runId = history.events[0]?.workflowExecutionStartedEventAttributes?.originalExecutionRunId ?? ''
    if (seen.has(runId)) continue
    seen.add(runId)
    for (const event of history.events) {
      const child = event.childWorkflowExecutionStartedEventAttributes?.workflowExecution
      if (child?.workflowId) waiting.push({ workflowId: child.workflowId, runId: child.runId ?? '' })
      const continued = event.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId
      if (continued) waiting.push({ workflowId: next.workflowId, runId: continued })
    }
    if (isClosed(history)) closed.push(history)
  }
  return closed
}

function isClosed(history: History): boolean {
  const last = history.events.at(-1)
  return Boolean(
    last?.workflowExecutionCompletedEventAttributes ??
      last?.workflowExecutionFailedEventAttributes ??
      last?.workflowExecutionCanceledEventAttributes ??
      last?.workflowExecutionContinuedAsNewEventAttributes,
  )
}

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      address: { type: 'string', default: process.env.TEMPORAL_ADDRESS ?? 'localhost:7233' },
      namespace: { type: 'string', default: 'default' },
      'per-type': { type: 'string', default: '2' },
    },
  })
  if (positionals.length === 0) {
    console.error('Expected at least one workflow id, got none')
    process.exitCode = 2
    return
  }
  const connection = await Connection.connect({ address: values.address })
  try {
    const client = new Client({ connection, namespace: values.namespace })
    const files = await recordHistories({ client, workflowIds: positionals, perType: Number(values['per-type']) })
    console.log(files.join('\n'))
  } finally {
    await connection.close()
  }
}

if (import.meta.main) await main()
