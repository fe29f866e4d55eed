import type { Context as ActivityContext } from '@temporalio/activity'
import { ApplicationFailure, CancelledFailure, defaultPayloadConverter, type Headers } from '@temporalio/common'
import type { ActivityInterceptors, InjectedSinks, WorkerOptions } from '@temporalio/worker'
import { episodeId } from '../contracts/keys.ts'
import {
  parseTraceparent,
  TRACE_HEADER,
  type TraceCarrier,
  type TraceContext,
  type WorkflowSpan,
} from '../contracts/trace-context.ts'
import type { EpisodeInput } from '../contracts/workflows.types.ts'
import { runInSpan, type SpanAttributes } from '../platform/current-trace.ts'
import type { Traces } from '../platform/traces.ts'

interface TraceSinks extends Record<string, Record<string, (closed: WorkflowSpan) => void>> {
  longhaulTraces: { workflowClosed(closed: WorkflowSpan): void }
}

type TracedOptions = Pick<WorkerOptions, 'interceptors' | 'sinks'>

/** The worker options for spans. Without traces, the context that a workflow carries is read but not exported. */
export function tracedOptions(traces: Traces | null): TracedOptions {
  const sinks: InjectedSinks<TraceSinks> = {
    longhaulTraces: {
      workflowClosed: {
        callDuringReplay: false,
        fn: (info, closed) => {
          if (traces !== null) exportWorkflow(traces, info, closed)
        },
      },
    },
  }
  if (traces === null) return { sinks }
  return { sinks, interceptors: { activity: [(context) => tracedActivity(traces, context)] } }
}

interface ClosedRun {
  workflowId: string
  runId: string
  workflowType: string
  attempt: number
}

function exportWorkflow(traces: Traces, info: ClosedRun, closed: WorkflowSpan): void {
  const { span, parentSpanId, startMs, endMs, outcome, code } = closed
  const open = traces.startSpan({
    name: `RunWorkflow:${info.workflowType}`,
    kind: 'server',
    parent: parentSpanId === null ? null : { ...span, spanId: parentSpanId },
    ids: span,
    startMs,
    attributes: {
      'temporal.workflow.id': info.workflowId,
      'temporal.run.id': info.runId,
      'temporal.attempt': info.attempt,
      'longhaul.outcome': outcome,
    },
  })
  open.end({ code, endMs })
}

/** Creates one span per attempt, so that retries are siblings under their workflow. */
function tracedActivity(traces: Traces, { info }: ActivityContext): ActivityInterceptors {
  return {
    inbound: {
      async execute(input, next) {
        const parent = contextOf(input.headers)
        if (parent === null) return next(input)
        const noted: SpanAttributes = {}
        const span = traces.startSpan({
          name: `RunActivity:${info.activityType}`,
          kind: 'server',
          parent,
          attributes: {
            'temporal.workflow.id': info.workflowExecution?.workflowId,
            'temporal.run.id': info.workflowExecution?.runId,
            'temporal.activity.id': info.activityId,
            'temporal.attempt': info.attempt,
            ...describeInput(input.args[0]),
          },
        })
        const current = {
          context: span.context,
          note: (attributes: SpanAttributes) => Object.assign(noted, attributes),
        }
        try {
          const result = await runInSpan(current, () => next(input))
          span.end({ attributes: { ...noted, ...describeResult(result) } })
          return result
        } catch (error) {
          span.end({ attributes: { ...noted, ...describeCancel(error) }, code: codeOf(error) })
          throw error
        }
      },
    },
  }
}

function contextOf(headers: Headers): TraceContext | null {
  const payload = headers[TRACE_HEADER]
  if (payload === undefined) return null
  try {
    return parseTraceparent(defaultPayloadConverter.fromPayload<TraceCarrier>(payload).traceparent)
  } catch {
    // The header comes from another program that uses the same name.
    return null
  }
}

/** Coordinates that distinguish activities of the same name; an attribute is named `longhaul.` and the field. */
const COORDINATES = [
  'run',
  'stage',
  'iteration',
  'taskId',
  'index',
  'slice',
  'step',
  'placement',
  'which',
  'name',
] as const

function describeInput(input: unknown): SpanAttributes {
  if (typeof input !== 'object' || input === null) return {}
  const fields = input as Record<string, unknown>
  const attributes: SpanAttributes = {}
  for (const name of COORDINATES) attributes[`longhaul.${name}`] = scalarOf(fields[name])
  if (isEpisode(fields)) attributes['longhaul.episode'] = episodeId(fields)
  return { ...attributes, 'longhaul.policy': versionOf(fields['policy']) }
}

function isEpisode(fields: object): fields is EpisodeInput {
  return ['run', 'stage', 'iteration', 'taskId', 'index'].every((name) => name in fields)
}

function versionOf(policy: unknown): string | null {
  const version = typeof policy === 'object' && policy !== null && 'version' in policy ? policy.version : policy
  return typeof version === 'string' ? version : null
}

/** Counts and outcomes that are taken from a result. */
const ENDINGS = ['turns', 'disposition', 'verdict', 'steps', 'trajectories', 'groups', 'episodes'] as const

function describeResult(result: unknown): SpanAttributes {
  if (typeof result !== 'object' || result === null) return {}
  const fields = result as Record<string, unknown>
  return Object.fromEntries(ENDINGS.map((name) => [`longhaul.${name}`, scalarOf(fields[name])]))
}

function scalarOf(value: unknown): string | number | null {
  return typeof value === 'string' || typeof value === 'number' ? value : null
}

function describeCancel(error: unknown): SpanAttributes {
  return error instanceof CancelledFailure ? { 'longhaul.outcome': 'cancelled' } : {}
}

/** A cancelled attempt has not failed. */
function codeOf(error: unknown): string | null {
  if (error instanceof CancelledFailure) return null
  return error instanceof ApplicationFailure && error.type ? error.type : 'unmapped'
}
