/**
 * Carries the trace of a run from its start to its activities and children, and tells the worker of each execution that closes. Header
 * and span derive from the history and the run's id, never from a random number or the clock, and Temporal compares no headers on
 * replay: a run begun with traces goes on without, and the other way round.
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

/** Roots that people and schedules start. Rounds of the watch, hosts and readings of records begin no trace. */
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
        // The next execution hangs where this one does: a run of many executions is no chain of spans.
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
    // Another program's header of this name.
    return null
  }
}

function headerOf(span: TraceContext): Headers {
  const carrier: TraceCarrier = { traceparent: formatTraceparent(span) }
  return { [TRACE_HEADER]: defaultPayloadConverter.toPayload(carrier) }
}

function tellClosed({ span, parentSpanId }: Place, outcome: WorkflowSpan['outcome'], code: string | null): void {
  const { runStartTime } = workflowInfo()
  // The clock of a workflow is that of its history.
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

/** The innermost code: a child's failure wraps that of its activity. Never the message. */
function codeOf(error: unknown): string | null {
  let code: string | null = null
  for (let link: unknown = error; link instanceof Error; link = link.cause) {
    if (link instanceof ApplicationFailure && link.type) code = link.type
  }
  return code
}
