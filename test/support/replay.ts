/** Replays histories against the current workflow code, through the SDK's core and without a server. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'
import proto from '@temporalio/proto'
import { DefaultLogger, Runtime, Worker } from '@temporalio/worker'
import { tracedOptions } from '../../src/workers/traces.ts'
import type { History } from './history-builder.ts'
import type { WorkflowBundle } from './workflow-bundle.ts'

export const HISTORIES = fileURLToPath(new URL('../replay/histories/', import.meta.url))

export interface RecordedHistory {
  /** File name, or another name for messages. */
  name: string
  workflowId: string
  type: string
  history: History
}

/** `*.json` and `*.json.gz` of a folder, as `historyToJson` writes them. */
export function readHistories(folder: string = HISTORIES): RecordedHistory[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.json') || name.endsWith('.json.gz'))
    .toSorted()
    .map((name) => {
      const bytes = readFileSync(join(folder, name))
      const json = (name.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString('utf8')
      return describeHistory(name, historyFromJson(JSON.parse(json)))
    })
}

/**
 * The plain object form of protobufjs. The SDK's own `historyToJSON` requires that all packages share one copy of protobufjs, which
 * an installation with other gRPC users does not guarantee.
 */
export function historyToJson(history: History): object {
  return proto.temporal.api.history.v1.History.toObject(proto.temporal.api.history.v1.History.fromObject(history), {
    longs: String,
    enums: String,
    bytes: String,
  })
}

function historyFromJson(json: object): History {
  return proto.temporal.api.history.v1.History.fromObject(json)
}

export function describeHistory(name: string, history: History): RecordedHistory {
  const started = history.events[0]?.workflowExecutionStartedEventAttributes
  if (!started?.workflowId || !started.workflowType?.name) {
    throw new Error(`${name} does not begin with the start of a workflow`)
  }
  return { name, workflowId: started.workflowId, type: started.workflowType.name, history }
}

/** @returns the failures by name; empty if every history replays */
export async function replayAll(
  bundle: WorkflowBundle,
  histories: RecordedHistory[],
): Promise<{ name: string; error: Error }[]> {
  quietRuntime()
  const failures: { name: string; error: Error }[] = []
  let place = 0
  for await (const { error } of Worker.runReplayHistories(
    { workflowBundle: bundle, ...tracedOptions(null) },
    histories,
  )) {
    // Results arrive in the order of the histories.
    const name = histories[place++]?.name ?? 'unknown'
    if (error) failures.push({ name, error })
  }
  if (place !== histories.length) throw new Error(`Expected ${histories.length} results of the replay, got ${place}`)
  return failures
}

let isQuiet = false

/** Core logs each replay worker's start and stop, so only errors are shown. One runtime per process. */
function quietRuntime(): void {
  if (isQuiet) return
  Runtime.install({
    logger: new DefaultLogger('ERROR'),
    telemetryOptions: { logging: { filter: 'ERROR', forward: {} } },
  })
  isQuiet = true
}
