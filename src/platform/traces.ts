import { LonghaulError } from '../contracts/errors.ts'
import type { TraceContext } from '../contracts/trace-context.ts'
import type { SpanAttributes } from './current-trace.ts'

export interface StartSpanInput {
  name: string
  kind: 'client' | 'server' | 'internal'
  /** Null: the span begins a trace. */
  parent: TraceContext | null
  /** Ids that others know already. @default random ones */
  ids?: Pick<TraceContext, 'traceId' | 'spanId'>
  /** ms since 1970. @default now */
  startMs?: number
  attributes: SpanAttributes
}

export interface EndSpanInput {
  attributes?: SpanAttributes
  /** Failure code; null or absent where nothing failed. */
  code?: string | null
  /** ms since 1970. @default now */
  endMs?: number
}

export interface OpenSpan {
  context: TraceContext
  end(input?: EndSpanInput): void
}

/** The spans of one process on their way to a collector. None of it waits, throws or fails because of the collector. */
export interface Traces {
  startSpan(input: StartSpanInput): OpenSpan
  /** Sends what is left, for `limitMs` at the longest. */
  close(limitMs: number): Promise<void>
}

export interface TraceSettings {
  /** The collector's, with its path. */
  url: URL
  /** Share of the runs that no client has begun a trace for. */
  ratio: number
}

/**
 * What the standard variables of OpenTelemetry say; null: no traces. The exporter itself reads the others (headers, time-outs, limits).
 * @throws LonghaulError `Config.Invalid`
 */
export function readTraceSettings(env: NodeJS.ProcessEnv = process.env): TraceSettings | null {
  if (env['OTEL_SDK_DISABLED']?.toLowerCase() === 'true' || env['OTEL_TRACES_EXPORTER'] === 'none') return null
  const own = env['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'] ?? ''
  const shared = env['OTEL_EXPORTER_OTLP_ENDPOINT'] ?? ''
  if (own === '' && shared === '') return null
  const protocol = env['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL'] ?? env['OTEL_EXPORTER_OTLP_PROTOCOL'] ?? ''
  if (!['', 'http/json', 'http/protobuf'].includes(protocol)) {
    throw invalid(
      `Expected OTEL_EXPORTER_OTLP_PROTOCOL to be http/json or http/protobuf (port 4318 of most collectors), got ${JSON.stringify(protocol)}`,
    )
  }
  const name = own === '' ? 'OTEL_EXPORTER_OTLP_ENDPOINT' : 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'
  const url = URL.parse(own === '' ? `${shared.replace(/\/$/, '')}/v1/traces` : own)
  // Without the value: it may hold a password.
  if (url === null || !/^https?:$/.test(url.protocol)) throw invalid(`Expected ${name} to be an http(s) address`)
  return { url, ratio: ratioOf(env) }
}

function ratioOf(env: NodeJS.ProcessEnv): number {
  const sampler = env['OTEL_TRACES_SAMPLER'] ?? ''
  switch (sampler) {
    case '':
    case 'always_on':
    case 'parentbased_always_on':
      return 1
    case 'always_off':
    case 'parentbased_always_off':
      return 0
    case 'traceidratio':
    case 'parentbased_traceidratio': {
      const ratio = Number(env['OTEL_TRACES_SAMPLER_ARG'] ?? '1')
      if (ratio >= 0 && ratio <= 1) return ratio
      throw invalid('Expected OTEL_TRACES_SAMPLER_ARG to be a number from 0 to 1')
    }
    default:
      throw invalid(
        `Expected OTEL_TRACES_SAMPLER to be always_on, always_off or traceidratio, with parentbased_ before it or not, got ${JSON.stringify(sampler)}`,
      )
  }
}

function invalid(message: string): LonghaulError {
  return new LonghaulError({ code: 'Config.Invalid', message })
}

/** Null: off. The packages of OpenTelemetry are loaded here and nowhere else. @throws LonghaulError `Config.Invalid` */
export async function openTraces(
  role: string,
  { env = process.env, warn }: { env?: NodeJS.ProcessEnv; warn: (line: string) => void },
): Promise<Traces | null> {
  const settings = readTraceSettings(env)
  if (settings === null) return null
  const { exportTraces } = await import('./export-traces.ts')
  return exportTraces(settings, { role, warn })
}
