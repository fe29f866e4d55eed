import { AsyncLocalStorage } from 'node:async_hooks'
import { formatTraceparent, type TraceContext } from '../contracts/trace-context.ts'

/** What a span says: ids, counts and codes. */
export type SpanAttributes = Record<string, string | number | boolean | null | undefined>

interface CurrentSpan {
  context: TraceContext
  /** More attributes for when it ends. */
  note(attributes: SpanAttributes): void
}

/** Carried along every await, so that adapters need not be handed a span. */
const spans = new AsyncLocalStorage<CurrentSpan>()

export function runInSpan<T>(span: CurrentSpan, work: () => T): T {
  return spans.run(span, work)
}

/** The header of W3C for requests that belong to this span; none without a trace. */
export function traceHeaders(): { traceparent?: string } {
  const span = spans.getStore()
  return span === undefined ? {} : { traceparent: formatTraceparent(span.context) }
}

/** The same for the environment of a process. */
export function traceVariables(): { TRACEPARENT?: string } {
  const span = spans.getStore()
  return span === undefined ? {} : { TRACEPARENT: formatTraceparent(span.context) }
}

/** Without a trace nothing is noted. */
export function noteOnSpan(attributes: SpanAttributes): void {
  spans.getStore()?.note(attributes)
}
