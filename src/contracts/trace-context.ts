/** W3C trace context, and how Longhaul carries it: in a header of Temporal, a header of HTTP, a variable of a process. */

/** Where a span hangs: its trace, the span above it, and whether the trace is recorded. */
export interface TraceContext {
  /** 32 hexadecimal digits. */
  traceId: string
  /** 16 hexadecimal digits. */
  spanId: string
  sampled: boolean
}

/** Header of Temporal that OpenTelemetry interceptors of all SDKs share: programs that use them join Longhaul's traces. */
export const TRACE_HEADER = '_tracer-data'
/** Its payload. */
export interface TraceCarrier {
  traceparent?: string
}

/** In the text of a workflow bundle, with room for a ratio: a worker that exports spans writes the share of runs that begin a trace of their own. */
export const TRACE_SWITCH = 'longhaul-traces:off     '
/** @param ratio from 0 to 1; null: off */
export function traceSwitch(ratio: number | null): string {
  return ratio === null ? TRACE_SWITCH : `longhaul-traces:${ratio.toFixed(6)}`
}

/** What a workflow tells the worker of its span when it closes. */
export interface WorkflowSpan {
  /** The workflow's own. */
  span: TraceContext
  parentSpanId: string | null
  /** ms since 1970, by the history. */
  startMs: number
  endMs: number
  outcome: 'completed' | 'failed' | 'cancelled' | 'continued-as-new'
  /** Failure code; null where it did not fail. */
  code: string | null
}

const TRACEPARENT = /^00-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})$/

/** Null for anything that is no context of version 00. */
export function parseTraceparent(text: unknown): TraceContext | null {
  const [, traceId, spanId, flags] = TRACEPARENT.exec(typeof text === 'string' ? text : '') ?? []
  if (traceId === undefined || spanId === undefined || flags === undefined) return null
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return null
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 }
}

export function formatTraceparent({ traceId, spanId, sampled }: TraceContext): string {
  return `00-${traceId}-${spanId}-${sampled ? '01' : '00'}`
}

/** The span of one execution of a workflow: known to every worker that replays it, without a random number. */
export function spanIdOfRun(runId: string): string {
  return hexOf(runId).slice(16)
}

/** The trace of a run that no client has begun one for. */
export function traceIdOfRun(runId: string): string {
  return hexOf(runId)
}

/** Run ids are UUIDs, by time in newer servers: the last 62 bits are random in all of them. */
function hexOf(runId: string): string {
  return runId.replaceAll('-', '').toLowerCase()
}

/** Whether a trace that begins at a run is recorded. @param ratio share of traces, from 0 to 1 */
export function isSampled(traceId: string, ratio: number): boolean {
  return Number.parseInt(traceId.slice(24), 16) < ratio * 2 ** 32
}
