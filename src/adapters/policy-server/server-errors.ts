import { LonghaulError } from '../../contracts/errors.ts'
import type { FailureCode } from '../../contracts/failure-codes.ts'
import { isObject } from './reply.ts'
import type { HttpRefusal } from './openai-transport.ts'
import { parseRetryAfter, type TryResult } from './retry.ts'

export interface Route {
  url: string
  /** Policy that the request names; null where it names none. */
  policy: string | null
}

/** A bug in the server answers 500 for ever; a restart answers 502, 503 or nothing. Only the second deserves patience. */
const MOST_INTERNAL_ERRORS = 4

/** Turns an answer that is not 200 into a decision, most specific reason first. */
export function decideOnError(refusal: HttpRefusal, route: Route, tries: number): TryResult<never> {
  const { status } = refusal
  const fault = readFault(refusal)
  // Waiting brings no credit.
  if (status === 429 && fault.code === 'insufficient_quota') {
    return failed('Config.Invalid', 'an account with credit left')
  }
  if (status === 429) return again('Model.RateLimited', 'the policy server to take a request, it is rate limited')
  if (status === 502 || status === 503 || status === 504) {
    return again('Model.Unavailable', 'the policy server to be ready')
  }
  if (status >= 500) {
    const expected = 'the policy server to answer, it met an internal error'
    return tries < MOST_INTERNAL_ERRORS ? again('Model.Unavailable', expected) : failed('Model.Unavailable', expected)
  }
  if (status >= 300 && status < 400) {
    const target = (refusal.location ?? 'an unnamed address').slice(0, 200)
    return failed('Config.Invalid', `the policy server's own address, this one redirects to ${target}`)
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

  function failed(code: FailureCode, expected: string): TryResult<never> {
    return { kind: 'failed', error: errorOf(code, expected) }
  }
  function again(code: FailureCode, expected: string): TryResult<never> {
    return { kind: 'again', error: errorOf(code, expected), afterMs: parseRetryAfter(refusal.retryAfter, Date.now()) }
  }
  function errorOf(code: FailureCode, expected: string): LonghaulError {
    return new LonghaulError({
      code,
      message: `Expected ${expected}: ${fault.message}`,
      details: { status, url: route.url, policy: route.policy },
    })
  }
}

interface Fault {
  code: string | null
  message: string
  /** The framework's own 404: the path does not exist there, so it is another kind of server. */
  isRouteMissing: boolean
}

/** `{message, code}` (OpenAI, and older vLLM) or `{"detail": …}` (the web framework). */
function readFault({ error, text }: HttpRefusal): Fault {
  const told = isObject(error) ? error : {}
  const code = [told['code'], told['type']].find((word) => typeof word === 'string') ?? null
  const said = told['message'] ?? told['detail'] ?? text
  const message = (typeof said === 'string' ? said : JSON.stringify(said)).slice(0, 500)
  return { code, message, isRouteMissing: told['detail'] === 'Not Found' }
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
