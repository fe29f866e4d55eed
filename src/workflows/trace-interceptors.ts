/**
 * Propagates the trace of a run from its start to its activities and children, and reports each execution that closes to the worker.
 * Header and span derive from the history and the run's id, never from a random number or the clock. Temporal does not compare headers
 * on replay, so a run that began with traces can continue without them, and vice versa.
 */
import { ApplicationFailure, defaultPayloadConverter, type Headers } from '@temporalio/common'
import {
  ContinueAsNew,
  isCancellation,
  proxySinks,
  type Sinks,
  type WorkflowInterceptorsFactory,
  workflowInfo,
} from '@temporalio/workflow'
import {
  formatTraceparent,
  isSampled,
  parseTraceparent,
  spanIdOfRun,
  TRACE_HEADER,
  TRACE_SWITCH,
  type TraceCarrier,
  type TraceContext,
  traceIdOfRun,
  type WorkflowSpan,
} from '../contracts/trace-context.ts'

interface TraceSinks extends Sinks {
  longhaulTraces: { workflowClosed(closed: WorkflowSpan): void }
}

const { longhaulTraces } = proxySinks<TraceSinks>()

/** Roots that users and schedules start. Rounds of the watch, hosts and reads of records begin no trace. */
const ROOTS = new Set(['trainAgent', 'evaluate', 'gateSuite', 'gradePredictions'])

interface Place {
  span: TraceContext
  parentSpanId: string | null
}

export const interceptors: WorkflowInterceptorsFactory = () => {
  let above: Headers = {}
  let place: Place | null = null
  const below = <Input extends { headers: Headers }>(input: Input): Input =>
    place === null ? input : { ...input, headers: { ...input.headers, ...headerOf(place.span) } }
  return {
    inbound: [
      {
        async execute(input, next) {
          above = input.headers
          place = placeOf(above)
          if (place === null) return next(input)
          try {
            const result = await next(input)
            tellClosed(place, 'completed', null)
            return result
          } catch (error) {
            tellClosed(place, outcomeOf(error), codeOf(error))
            throw error
          }
        },
      },
    ],
    outbound: [
      {
        scheduleActivity: (input, next) => next(below(input)),
        scheduleLocalActivity: (input, next) => next(below(input)),
        startChildWorkflowExecution: (input, next) => next(below(input)),
        // The next execution has the same parent as this one, so that a run of many executions is not a chain of spans.
        continueAsNew: (input, next) => {
          const carried = above[TRACE_HEADER]
          if (carried === undefined) return next(input)
          return next({ ...input, headers: { ...input.headers, [TRACE_HEADER]: carried } })
        },
      },
    ],
  }
}

function placeOf(headers: Headers): Place | null {
  const { runId, firstExecutionRunId, parent, workflowType } = workflowInfo()
  const caller = readHeader(headers)
  const spanId = spanIdOfRun(runId)
  if (caller !== null) return { span: { ...caller, spanId }, parentSpanId: caller.spanId }
  const ratio = Number(TRACE_SWITCH.split(':')[1])
  if (Number.isNaN(ratio) || parent !== undefined || !ROOTS.has(workflowType)) return null
  const traceId = traceIdOfRun(firstExecutionRunId)
  const isFirst = runId === firstExecutionRunId
  return {
    span: { traceId, spanId, sampled: isSampled(traceId, ratio) },
    parentSpanId: isFirst ? null : spanIdOfRun(firstExecutionRunId),
  }
}

function readHeader(headers: Headers): TraceContext | null {
  const payload = headers[TRACE_HEADER]
  if (payload === undefined) return null
  try {
    return parseTraceparent(defaultPayloadConverter.fromPayload<TraceCarrier>(payload).traceparent)
  } catch {
    // The header comes from another program that uses the same name.
    return null
  }
}

function headerOf(span: TraceContext): Headers {
  const carrier: TraceCarrier = { traceparent: formatTraceparent(span) }
  return { [TRACE_HEADER]: defaultPayloadConverter.toPayload(carrier) }
}

function tellClosed({ span, parentSpanId }: Place, outcome: WorkflowSpan['outcome'], code: string | null): void {
  const { runStartTime } = workflowInfo()
  // A workflow's clock is that of its history.
  longhaulTraces.workflowClosed({
    span,
    parentSpanId,
    startMs: runStartTime.getTime(),
    endMs: Date.now(),
    outcome,
    code,
  })
}

function outcomeOf(error: unknown): WorkflowSpan['outcome'] {
  if (error instanceof ContinueAsNew) return 'continued-as-new'
  return isCancellation(error) ? 'cancelled' : 'failed'
}

/** Returns the innermost code, because a child's failure wraps that of its activity. Never returns the message. */
function codeOf(error: unknown): string | null {
  let code: string | null = null
  for (let link: unknown = error; link instanceof Error; link = link.cause) {
    if (link instanceof ApplicationFailure && link.type) code = link.type
  }
  return code
}
