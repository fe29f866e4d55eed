import type { WorkflowClientInterceptor } from '@temporalio/client'
import { defaultPayloadConverter, type Headers } from '@temporalio/common'
import { formatTraceparent, TRACE_HEADER, type TraceCarrier } from '../contracts/trace-context.ts'
import { workflowIds } from '../contracts/workflow-ids.ts'
import type { SpanAttributes } from '../platform/current-trace.ts'
import { type OpenSpan, openTraces, readTraceSettings, type Traces } from '../platform/traces.ts'

/** Spans of what a client starts and steers. */
export interface ClientTraces {
  interceptors: { workflow: WorkflowClientInterceptor[] }
  /** Sends what is left, for two seconds at the longest. */
  close(): Promise<void>
}

const CLOSE_MS = 2_000

/** Hosts, rounds of the watch and readings of records are no work of a run. */
const NO_RUNS = [workflowIds.host(''), workflowIds.watch(''), 'read/']

/**
 * None where the environment names no collector. OpenTelemetry's packages are loaded by the first call that has a span: commands that
 * only look at runs do not pay for them. @throws LonghaulError `Config.Invalid`
 */
export function clientTraces(env: NodeJS.ProcessEnv): ClientTraces | null {
  if (readTraceSettings(env) === null) return null
  let opened: Promise<Traces | null> | null = null
  const within = async <T>(name: string, workflowId: string, call: (headers: Headers) => Promise<T>) => {
    if (NO_RUNS.some((prefix) => workflowId.startsWith(prefix))) return call({})
    opened ??= openTraces('client', { env, warn: (line) => process.stderr.write(`${line}\n`) })
    const traces = await opened
    const attributes: SpanAttributes = { 'temporal.workflow.id': workflowId }
    const span = traces?.startSpan({ name, kind: 'client', parent: null, attributes })
    return span === undefined ? call({}) : ended(span, () => call(headerOf(span)))
  }
  return {
    interceptors: {
      workflow: [
        {
          startWithDetails: (input, next) =>
            within(`StartWorkflow:${input.workflowType}`, input.options.workflowId, (headers) =>
              next({ ...input, headers: { ...input.headers, ...headers } }),
            ),
          startUpdate: (input, next) =>
            within(`UpdateWorkflow:${input.updateName}`, input.workflowExecution.workflowId, (headers) =>
              next({ ...input, headers: { ...input.headers, ...headers } }),
            ),
          signal: (input, next) =>
            within(`SignalWorkflow:${input.signalName}`, input.workflowExecution.workflowId, (headers) =>
              next({ ...input, headers: { ...input.headers, ...headers } }),
            ),
          cancel: (input, next) => within('CancelWorkflow', input.workflowExecution.workflowId, () => next(input)),
          terminate: (input, next) =>
            within('TerminateWorkflow', input.workflowExecution.workflowId, () => next(input)),
        },
      ],
    },
    close: async () => (await opened)?.close(CLOSE_MS),
  }
}

function headerOf({ context }: OpenSpan): Headers {
  const carrier: TraceCarrier = { traceparent: formatTraceparent(context) }
  return { [TRACE_HEADER]: defaultPayloadConverter.toPayload(carrier) }
}

/** A failed call (a taken name, an ended run) is reported by the class of its error: messages quote requests. */
async function ended<T>(span: OpenSpan, call: () => Promise<T>): Promise<T> {
  try {
    const result = await call()
    span.end()
    return result
  } catch (error) {
    span.end({ code: error instanceof Error ? error.name : 'unmapped' })
    throw error
  }
}
