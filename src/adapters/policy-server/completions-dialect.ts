import type { PolicyVersion, SampleRequest } from '../../contracts/policy.types.ts'
import { bad, isIdList, isObject } from './answer.ts'
import { completionBody, readCompletion } from './completion.ts'
import { type Dialect, type Exchange, SMALL_ANSWER_MS } from './dialect.ts'
import { readPromptLogprobs, scoringBody } from './scoring.ts'

/** What vLLM and the embedded server have in common: `/v1/completions` with token ids, `/tokenize`, `/v1/models`.
 *  @param leastTokens that the server samples where only scores are wanted */
export function completionsDialect({ leastTokens }: { leastTokens: 0 | 1 }): Omit<Dialect, 'load' | 'release'> {
  return {
    sample: (request) => ({
      path: '/v1/completions',
      body: completionBody(request),
      policy: request.policy,
      headers: affinityHeaders(request),
      parse: (answer) => readCompletion({ answer, request }),
    }),
    tokenize,
    score: ({ policy, ids }) => ({
      path: '/v1/completions',
      body: scoringBody({ policy, ids, maxTokens: leastTokens }),
      policy,
      parse: (answer) => readPromptLogprobs({ answer, ids, policy }),
    }),
    served,
  }
}

/** Every engine we know has it, in this form. */
export const tokenize: Dialect['tokenize'] = ({ policy, text }) => ({
  path: '/tokenize',
  // Off by name: for a plain prompt engines add special tokens unless told not to.
  body: { model: policy, prompt: text, add_special_tokens: false },
  policy,
  timeoutMs: SMALL_ANSWER_MS,
  parse: readTokens,
})

export function served(): Exchange<PolicyVersion[]> {
  return { path: '/v1/models', policy: null, timeoutMs: SMALL_ANSWER_MS, parse: readModels }
}

/** Keeps an episode on the server that holds its prefix: the names that the usual routers read; harmless elsewhere. */
export function affinityHeaders({ session }: Pick<SampleRequest, 'session'>): Record<string, string> {
  const value = encodeURIComponent(session)
  return { 'x-session-id': value, 'x-smg-routing-key': value }
}

function readTokens(answer: unknown): number[] {
  const tokens = isObject(answer) ? answer['tokens'] : undefined
  if (!isIdList(tokens)) throw bad('a list of token ids', { got: typeof tokens })
  return tokens
}

function readModels(answer: unknown): string[] {
  const data = isObject(answer) ? answer['data'] : undefined
  if (!Array.isArray(data)) throw bad('a list of models', { got: typeof data })
  return data.flatMap((model: unknown) => (isObject(model) && typeof model['id'] === 'string' ? [model['id']] : []))
}
