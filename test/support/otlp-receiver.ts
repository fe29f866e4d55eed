/** An OpenTelemetry collector on loopback: accepts exports over HTTP as JSON, decodes them, and can misbehave like bad collectors. */
import { createServer, type IncomingMessage } from 'node:http'
import { closeServer, listenOnLoopback } from './loopback.ts'

export interface ReceivedSpan {
  service: string
  resource: Record<string, unknown>
  name: string
  traceId: string
  spanId: string
  /** Empty if the span begins its trace. */
  parentSpanId: string
  attributes: Record<string, unknown>
  /** 0 unset, 1 ok, 2 error */
  status: number
  durationMs: number
}

export interface OtlpReceiver {
  url: string
  spans: ReceivedSpan[]
  /** The bytes of every export, as text. */
  raw(): string
  requests(): number
  close(): Promise<void>
}

/** @param habit `takes` answers like a collector, `hangs` never answers, `fails` answers with status 500 */
export async function startOtlpReceiver(habit: 'takes' | 'hangs' | 'fails' = 'takes'): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = []
  let raw = ''
  let requests = 0
  const server = createServer((request, response) => {
    void readAll(request).then((body) => {
      requests += 1
      raw += `${JSON.stringify(request.headers)}${body}`
      if (habit === 'hangs') return
      if (habit === 'fails') return void response.writeHead(500).end('no')
      spans.push(...decode(JSON.parse(body) as Export))
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    })
  })
  const port = await listenOnLoopback(server)
  return {
    url: `http://127.0.0.1:${port}`,
    spans,
    raw: () => raw,
    requests: () => requests,
    close: () => closeServer(server),
  }
}

interface Value {
  stringValue?: string
  intValue?: number | string
  doubleValue?: number
  boolValue?: boolean
}
type Attributes = { key: string; value: Value }[]

interface Export {
  resourceSpans: {
    resource: { attributes: Attributes }
    scopeSpans: {
      spans: {
        name: string
        traceId: string
        spanId: string
        parentSpanId?: string
        attributes: Attributes
        status?: { code?: number }
        startTimeUnixNano: string
        endTimeUnixNano: string
      }[]
    }[]
  }[]
}

function decode({ resourceSpans }: Export): ReceivedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const described = decodeAttributes(resource.attributes)
    return scopeSpans.flatMap(({ spans }) =>
      spans.map(({ name, traceId, spanId, parentSpanId = '', attributes, status, ...times }) => ({
        service: String(described['service.name']),
        resource: described,
        name,
        traceId,
        spanId,
        parentSpanId,
        attributes: decodeAttributes(attributes),
        status: status?.code ?? 0,
        durationMs: Number(BigInt(times.endTimeUnixNano) - BigInt(times.startTimeUnixNano)) / 1e6,
      })),
    )
  })
}

function decodeAttributes(attributes: Attributes): Record<string, unknown> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => [
      key,
      value.stringValue ?? value.doubleValue ?? value.boolValue ?? Number(value.intValue),
    ]),
  )
}

async function readAll(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}
