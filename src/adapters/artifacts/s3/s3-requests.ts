/** The only importer of `aws4fetch`. It sends signed requests to one bucket, each with a deadline, and retries while the store is
 *  unavailable. */
import { setTimeout as sleep } from 'node:timers/promises'
import { AwsV4Signer } from 'aws4fetch'
import { isLonghaulError, type LonghaulError } from '../../../contracts/errors.ts'
import { sha256Hex } from '../../../platform/hash.ts'
import { createSlots } from '../../../platform/limiter.ts'
import type { CredentialSource, S3Credentials } from './s3-credentials.ts'
import { failedConnection, readRefusal, refusalOf, unavailable } from './s3-errors.ts'
import { encodeKey, encodeText, type S3Location } from './s3-location.ts'

export interface S3Request {
  method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE'
  /** Includes the prefix of the store; empty for the bucket itself. */
  key?: string
  /** An empty value gives a bare name, as in `?uploads`. */
  query?: Record<string, string>
  headers?: Record<string, string>
  body?: Uint8Array
  /** Statuses other than 2xx that are answers and not failures. */
  expected?: readonly number[]
  /** Returns false for an answer that must have been truncated although its length is correct. It is requested again. */
  isWhole?: (answer: Pick<S3Answer, 'headers' | 'body'>) => boolean
}

export interface S3Answer {
  status: number
  headers: Headers
  body: Buffer
  /** Number of earlier tries whose answer was lost, so that their effect is unknown. */
  lost: number
}

export type SendS3 = (request: S3Request) => Promise<S3Answer>

export interface S3RequestsOptions {
  location: S3Location
  credentials: CredentialSource
  /** Used in messages. */
  store: string
  /** Whether a fault that an operator must fix is waited for like an outage or thrown at once. @default false */
  waitsForOperator?: boolean
  /** Limit of one operation including retries. @default 40_000, so that activities of a minute fail with the store's name */
  giveUpAfterMs?: number
  /** Limit of one try of an operation without a body. @default 10_000 */
  answerMs?: number
  onTransientError?: (error: LonghaulError) => void
}

const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 5_000
/** A connection below this rate counts as broken. The limit of a try grows with its bytes at this rate. */
const LEAST_BYTES_PER_SECOND = 2 ** 20
/** Maximum sockets of a process. A run with 100 episodes writes their turns concurrently. */
const REQUESTS_AT_ONCE = 64
const RETRIED = new Set([408, 425, 429, 500, 502, 503, 504])
/** Statuses after which a retry may succeed. */
const RETRIED_CODES = new Set([
  'RequestTimeout',
  'SlowDown',
  'OperationAborted',
  'ConditionalRequestConflict',
  'BadDigest',
  'XAmzContentSHA256Mismatch',
  'IncompleteBody',
])
const EXPIRED_CODES = new Set(['ExpiredToken', 'TokenRefreshRequired'])

type Outcome =
  | { answer: S3Answer }
  | { retry: LonghaulError; afterMs?: number; isLost: boolean }
  /** An operator must change something. `expired` means that renewed credentials may help. */
  | { refused: LonghaulError; expired: boolean }

/** @throws LonghaulError `Artifact.Unavailable` */
export function createS3Requests({
  location,
  credentials,
  store,
  waitsForOperator = false,
  giveUpAfterMs = 40_000,
  answerMs = 10_000,
  onTransientError = () => undefined,
}: S3RequestsOptions): SendS3 {
  const slots = createSlots(REQUESTS_AT_ONCE)
  const signingKeys = new Map<string, ArrayBuffer>()
  const server = new URL(location.base).origin

  const sign = async (request: S3Request, given: S3Credentials): Promise<Awaited<ReturnType<AwsV4Signer['sign']>>> => {
    const { body = new Uint8Array() } = request
    // Each entry holds one day's key of a credential, so the map would grow daily.
    if (signingKeys.size > 8) signingKeys.clear()
    const signed = await new AwsV4Signer({
      ...given,
      method: request.method,
      url: addressOf(location, request),
      headers: { ...request.headers, 'x-amz-content-sha256': sha256Hex(body) },
      service: 's3',
      region: location.region,
      cache: signingKeys,
    }).sign()
    // Not signed, because proxies change it. A compressed answer would differ in length from the stored bytes.
    signed.headers.set('accept-encoding', 'identity')
    return signed
  }

  const tryOnce = async (
    request: S3Request,
    tries: { lost: number; renew: boolean; leftMs: number },
  ): Promise<Outcome> => {
    const facts = { store, key: request.key ?? '' }
    const given = await credentials({ renew: tries.renew }).catch((error: unknown) => {
      if (isLonghaulError(error)) return error
      throw error
    })
    if (isLonghaulError(given)) return { refused: given, expired: false }
    const { method, url, headers } = await sign(request, given)
    const clock = startDeadline(Math.min(tries.leftMs, answerMs + transferMs(request.body?.byteLength ?? 0)))
    try {
      const response = await fetch(url, {
        method,
        headers,
        signal: clock.signal,
        // A redirect would need another signature.
        redirect: 'manual',
        ...(request.body === undefined ? {} : { body: request.body as Uint8Array<ArrayBuffer> }),
      })
      const coming = method === 'HEAD' ? 0 : Number(response.headers.get('content-length') ?? 0)
      clock.restart(Math.min(tries.leftMs, answerMs + transferMs(coming)))
      const body = Buffer.from(await response.arrayBuffer())
      const announced = response.headers.get('content-length')
      if (method !== 'HEAD' && announced !== null && Number(announced) !== body.length)
        return {
          retry: unavailable(`Expected ${announced} bytes from the artifact store, got ${body.length}`, facts),
          isLost: true,
        }
      if (response.ok || (request.expected ?? []).includes(response.status)) {
        const noBucket = response.status === 404 && readRefusal(body).code === 'NoSuchBucket'
        if (response.ok && request.isWhole?.({ headers: response.headers, body }) === false)
          return {
            retry: unavailable('Expected a complete answer from the artifact store, got a truncated one', facts),
            isLost: true,
          }
        if (!noBucket) return { answer: { status: response.status, headers: response.headers, body, lost: tries.lost } }
      }
      const hasText = method !== 'HEAD'
      return judgeRefusal(response, body, {
        ...facts,
        region: location.region,
        server,
        right: rightOf(request),
        hasText,
      })
    } catch (error) {
      const failed = failedConnection({ got: describeNetwork(error, clock), server, facts })
      return failed.mayPass ? { retry: failed.error, isLost: true } : { refused: failed.error, expired: false }
    } finally {
      clock.stop()
    }
  }

  const send = async (request: S3Request): Promise<S3Answer> => {
    const deadline = performance.now() + giveUpAfterMs
    let [lost, renewed, pauseMs] = [0, false, FIRST_PAUSE_MS]
    for (;;) {
      const leftMs = deadline - performance.now()
      const outcome = await tryOnce(request, { lost, renew: renewed, leftMs })
      if ('answer' in outcome) return outcome.answer
      if ('refused' in outcome && outcome.expired && !renewed) {
        renewed = true
        continue
      }
      const error = 'refused' in outcome ? outcome.refused : outcome.retry
      if ('refused' in outcome && !waitsForOperator) throw error
      // An operator may have renewed the credentials of a role or a file.
      renewed ||= 'refused' in outcome
      onTransientError(error)
      if ('retry' in outcome && outcome.isLost) lost += 1
      const afterMs = 'retry' in outcome ? outcome.afterMs : undefined
      // Half of the pause is random, so that workers that failed together do not retry together.
      const waitMs = Math.max(afterMs ?? 0, pauseMs * (0.5 + Math.random() / 2))
      if (performance.now() + waitMs >= deadline) throw error
      await sleep(waitMs)
      pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)
    }
  }
  return (request) => slots.use(() => send(request))
}

function addressOf({ base }: S3Location, { key = '', query = {} }: S3Request): string {
  const search = Object.entries(query)
    .map(([name, value]) => `${encodeText(name)}=${encodeText(value)}`)
    .join('&')
  return `${base}/${encodeKey(key)}${search === '' ? '' : `?${search}`}`
}

function transferMs(bytes: number): number {
  return (bytes / LEAST_BYTES_PER_SECOND) * 1000
}

interface Deadline {
  signal: AbortSignal
  ms: number
  restart(ms: number): void
  stop(): void
}

/** Sets one deadline for the beginning of an answer and another for its body. */
function startDeadline(ms: number): Deadline {
  const controller = new AbortController()
  const arm = (after: number) => setTimeout(() => controller.abort(), Math.max(1, after))
  let timer = arm(ms)
  const deadline: Deadline = {
    signal: controller.signal,
    ms,
    restart(after) {
      clearTimeout(timer)
      timer = arm(after)
      deadline.ms = after
    },
    stop: () => clearTimeout(timer),
  }
  return deadline
}

function judgeRefusal(
  response: Response,
  body: Uint8Array,
  facts: { store: string; key: string; region: string; server: string; right: string; hasText: boolean },
): Outcome {
  const { status } = response
  const refusal = readRefusal(body)
  const { store, key } = facts
  if (RETRIED.has(status) || RETRIED_CODES.has(refusal.code)) {
    const said = refusal.code === '' ? '' : ` ${refusal.code}`
    const retry = unavailable(`Expected the artifact store to answer, but it says ${status}${said}`, { store, key })
    return { retry, ...retryAfter(response.headers.get('retry-after')), isLost: status >= 500 || status === 408 }
  }
  return { refused: refusalOf({ status, ...refusal, ...facts }), expired: EXPIRED_CODES.has(refusal.code) }
}

/** The permission that S3 asks for. Without the one to list, it refuses the reading of an absent key too. */
function rightOf({ method, key = '', query = {} }: S3Request): string {
  if (method === 'PUT') return 's3:PutObject'
  if (method === 'DELETE') return 'uploadId' in query ? 's3:AbortMultipartUpload' : 's3:DeleteObject'
  if (method === 'POST') return 'delete' in query ? 's3:DeleteObject' : 's3:PutObject'
  if (key !== '') return 's3:GetObject and s3:ListBucket'
  return 'uploads' in query ? 's3:ListBucketMultipartUploads' : 's3:ListBucket'
}

/** Reads seconds only, limited to our own longest pause. */
function retryAfter(text: string | null): { afterMs?: number } {
  const seconds = Number(text ?? Number.NaN)
  return seconds > 0 ? { afterMs: Math.min(seconds * 1000, LONGEST_PAUSE_MS) } : {}
}

function describeNetwork(error: unknown, { signal, ms }: Deadline): string {
  if (signal.aborted) return `none within ${(ms / 1000).toFixed(1)} s`
  const { message, cause } = error as Error & { cause?: { code?: string; message?: string } }
  return cause?.code ?? cause?.message ?? message
}
