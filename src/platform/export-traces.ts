/** The only importer of OpenTelemetry's packages, loaded where traces are on. */
import { type Context, ROOT_CONTEXT, type Span, SpanKind, SpanStatusCode, trace, TraceFlags } from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { defaultResource, detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources'
import {
  BasicTracerProvider,
  BatchSpanProcessor,
  type IdGenerator,
  RandomIdGenerator,
  type ReadableSpan,
  type SpanExporter,
} from '@opentelemetry/sdk-trace-base'
import { setTimeout as sleep } from 'node:timers/promises'
import type { TraceContext } from '../contracts/trace-context.ts'
import type { SpanAttributes } from './current-trace.ts'
import { packageVersion } from './code-version.ts'
import type { EndSpanInput, OpenSpan, StartSpanInput, Traces, TraceSettings } from './traces.ts'

const KINDS = { client: SpanKind.CLIENT, server: SpanKind.SERVER, internal: SpanKind.INTERNAL } as const

/** A person waits for a command to end; a worker has time. The variables of OpenTelemetry go over it. */
const CLIENT_TIMEOUT_MS = 2_000

/** Queue, batches and time-outs are OpenTelemetry's own: 2,048 spans, then spans are dropped; 512 a request; 10 s a request. */
export function exportTraces(
  settings: TraceSettings,
  { role, warn }: { role: string; warn: (line: string) => void },
): Traces {
  const ids = createIds()
  const hasTimeout = ['OTEL_EXPORTER_OTLP_TRACES_TIMEOUT', 'OTEL_EXPORTER_OTLP_TIMEOUT'].some(
    (name) => (process.env[name] ?? '') !== '',
  )
  const exporter = new OTLPTraceExporter({
    url: settings.url.href,
    ...(role === 'client' && !hasTimeout ? { timeoutMillis: CLIENT_TIMEOUT_MS } : {}),
  })
  const provider = new BasicTracerProvider({
    resource: resourceOf(role),
    idGenerator: ids,
    spanProcessors: [new BatchSpanProcessor(warningOnce(exporter, settings.url, warn))],
  })
  const tracer = provider.getTracer('longhaul', packageVersion())
  return {
    startSpan({ name, kind, parent, ids: known, startMs, attributes }: StartSpanInput): OpenSpan {
      const options = {
        kind: KINDS[kind],
        attributes: onlyIds(attributes),
        // OpenTelemetry takes a number from before the start of this process for one of the process's own clock.
        ...(startMs === undefined ? {} : { startTime: new Date(startMs) }),
      }
      const span = ids.use(known, () => tracer.startSpan(name, options, contextOf(parent)))
      return { context: contextOfSpan(span), end: (input) => endSpan(span, input) }
    },
    async close(limitMs) {
      const limit = new AbortController()
      const closed = provider.shutdown().catch(() => {})
      await Promise.race([closed, sleep(limitMs, undefined, { signal: limit.signal }).catch(() => {})])
      limit.abort()
    },
  }
}

function contextOf(parent: TraceContext | null): Context {
  if (parent === null) return ROOT_CONTEXT
  const { traceId, spanId, sampled } = parent
  const traceFlags = sampled ? TraceFlags.SAMPLED : TraceFlags.NONE
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, isRemote: true })
}

function contextOfSpan(span: Span): TraceContext {
  const { traceId, spanId, traceFlags } = span.spanContext()
  return { traceId, spanId, sampled: (traceFlags & TraceFlags.SAMPLED) !== 0 }
}

/** Failures are exported as their code: messages quote prompts, commands and addresses. */
function endSpan(span: Span, { attributes = {}, code = null, endMs }: EndSpanInput = {}): void {
  span.setAttributes(onlyIds(code === null ? attributes : { ...attributes, 'error.type': code }))
  if (code !== null) span.setStatus({ code: SpanStatusCode.ERROR })
  span.end(endMs === undefined ? undefined : new Date(endMs))
}

/** What an id looks like, also one of a data set; anything with a space or a line break is text, and text may be a prompt. */
const ID = /^[\w.:/@+=-]{1,300}$/

/** The door that every attribute passes. */
function onlyIds(attributes: SpanAttributes): Record<string, string | number | boolean> {
  const kept: Record<string, string | number | boolean> = {}
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'string' ? ID.test(value) : typeof value === 'number' || typeof value === 'boolean') {
      kept[name] = value as string | number | boolean
    }
  }
  return kept
}

function resourceOf(role: string) {
  const own = resourceFromAttributes({
    'service.name': `longhaul-${role}`,
    'service.version': packageVersion(),
    'longhaul.role': role,
  })
  // What the operator says in OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES goes over it.
  return defaultResource()
    .merge(own)
    .merge(detectResources({ detectors: [envDetector] }))
}

interface Ids extends IdGenerator {
  /** The spans that `start` makes have these ids. */
  use<T>(ids: StartSpanInput['ids'], start: () => T): T
}

/** Spans of workflows have ids that every replay knows; a span is started in one step, so the ids of two never mix. */
function createIds(): Ids {
  const random = new RandomIdGenerator()
  let known: StartSpanInput['ids']
  return {
    generateTraceId: () => known?.traceId ?? random.generateTraceId(),
    generateSpanId: () => known?.spanId ?? random.generateSpanId(),
    use(ids, start) {
      known = ids
      try {
        return start()
      } finally {
        known = undefined
      }
    },
  }
}

/** A collector that comes and goes is said this often at most. */
const SILENT_MS = 10 * 60_000

/** One line when batches begin to be lost, not one a batch. */
function warningOnce(exporter: SpanExporter, { origin, pathname }: URL, warn: (line: string) => void): SpanExporter {
  let warnedMs = -Infinity
  let isFailing = false
  return {
    export(spans: ReadableSpan[], done) {
      exporter.export(spans, (result) => {
        // 0: `ExportResultCode.SUCCESS`, of a package that nothing else here needs.
        const code: number = result.code
        const failed = code !== 0
        if (failed && !isFailing && performance.now() - warnedMs > SILENT_MS) {
          warnedMs = performance.now()
          warn(
            `no traces: the collector at ${origin}${pathname} ${reasonOf(result.error)}; runs go on, their spans are lost`,
          )
        }
        isFailing = failed
        done(result)
      })
    },
    forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve(),
    shutdown: () => exporter.shutdown(),
  }
}

/** Status or code of the socket: the rest of a message is the collector's text. */
function reasonOf(error: Error | undefined): string {
  const { code } = (error ?? {}) as { code?: unknown }
  if (typeof code === 'number') return `answers with status ${code}`
  if (typeof code === 'string') return `cannot be reached (${code})`
  return 'does not take them in time'
}
