import { LonghaulError } from '../../contracts/errors.ts'
import type { FailureCode } from '../../contracts/failure-codes.ts'
import type { HttpAnswer } from './http-exchange.ts'
import { parseRetryAfter, type TryResult } from './retry.ts'

export interface Route {
  url: URL
  /** Policy that the request names; null where it names none. */
  policy: string | null
}

/** A bug in the server answers 500 for ever; a restart answers 502, 503 or nothing. Only the second deserves patience. */
const MOST_INTERNAL_ERRORS = 4

/** Turns an answer that is not 200 into a decision, most specific reason first. */
export function decideOnError(answer: HttpAnswer, route: Route, tries: number): TryResult<never> {
  const { status } = answer
  const fault = readFault(answer.text)
  // Waiting brings no credit.
  if (status === 429 && fault.code === 'insufficient_quota') {
    return failed('Config.Invalid', 'an account with credit left')
  }
  if (status === 429) return again('Model.RateLimited', 'the policy server to take a request, it is rate limited')
  if (status === 502 || status === 503 || status === 504) {
    return again('Model.Unavailable', 'the policy server to be ready')
  }
  if (status >= 500) {
    const wish = 'the policy server to answer, it met an internal error'
    return tries < MOST_INTERNAL_ERRORS ? again('Model.Unavailable', wish) : failed('Model.Unavailable', wish)
  }
  if (isContextOverflow(fault)) return failed('Model.ContextOverflow', 'prompt and reply to fit into the context')
  if (status === 409 && fault.code === 'busy') return failed('Model.Busy', 'a free place on the policy server')
  if (status === 409) return failed('Artifact.Conflict', 'one set of weights under one version')
  if (status === 404 && route.policy !== null && !fault.isRouteMissing) {
    return failed('Model.NotServed', 'the policy to be served')
  }
  if (status === 422 && fault.code === 'bad_policy_directory') {
    return failed('Artifact.Corrupt', 'a policy directory that can be loaded')
  }
  return failed('Config.Invalid', 'the policy server to accept the request')

  function failed(code: FailureCode, wish: string): TryResult<never> {
    return { kind: 'failed', error: errorOf(code, wish) }
  }
  function again(code: FailureCode, wish: string): TryResult<never> {
    return { kind: 'again', error: errorOf(code, wish), afterMs: parseRetryAfter(answer.retryAfter, Date.now()) }
  }
  function errorOf(code: FailureCode, wish: string): LonghaulError {
    return new LonghaulError({
      code,
      message: `Expected ${wish}: ${fault.message}`,
      details: { status, url: route.url.href, policy: route.policy },
    })
  }
}

interface Fault {
  code: string | null
  message: string
  /** The framework's own 404: the path does not exist there, so it is another kind of server. */
  isRouteMissing: boolean
}

/** `{"error": {message, code}}` (OpenAI), `{message, code}` (older vLLM) or `{"detail": …}` (the web framework). */
function readFault(text: string): Fault {
  const body = parseObject(text)
  const error = isObject(body['error']) ? body['error'] : body
  const code =
    typeof error['code'] === 'string' ? error['code'] : typeof error['type'] === 'string' ? error['type'] : null
  const told = error['message'] ?? body['detail'] ?? text
  const message = (typeof told === 'string' ? told : JSON.stringify(told)).slice(0, 500)
  return { code, message, isRouteMissing: body['detail'] === 'Not Found' }
}

/** As OpenAI, vLLM, SGLang, Anthropic, llama.cpp and Ollama say it. */
function isContextOverflow({ code, message }: Fault): boolean {
  return (
    code === 'context_length_exceeded' ||
    code === 'exceed_context_size_error' ||
    /maximum context length|longer than the (?:maximum )?model['’]?s? (?:maximum )?(?:context )?length|prompt is too long|exceeds? (?:the )?(?:available )?context (?:size|length|limit|window)/i.test(
      message,
    )
  )
}

function parseObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : {}
  } catch {
    return {}
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
