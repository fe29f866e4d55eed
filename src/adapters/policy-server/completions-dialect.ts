import type { PolicyVersion, SampleRequest, SampleResult } from '../../contracts/policy.types.ts'
import { isObject } from '../../domain/shapes.ts'
import {
  type Dialect,
  type Exchange,
  SMALL_ANSWER_MS,
  type Witnessed,
  answerBytes,
  answeredByAnother,
  bad,
  decodingFields,
  isIdList,
  readLogprob,
  readReply,
  unlabelled,
  versionsOf,
} from './dialect.ts'
import { randomUUID } from 'node:crypto'
import { NEUTRAL_SAMPLING } from '../../contracts/neutral-sampling.ts'
import { fileURLToPath } from 'node:url'
import { LonghaulError } from '../../contracts/errors.ts'

/** The part that vLLM and the embedded server share: `/v1/completions` with token ids, `/tokenize`, `/v1/models`.
 *  @param leastTokens number of tokens that the server samples even if only scores are requested */
export function completionsDialect({ leastTokens }: { leastTokens: 0 | 1 }): Omit<Dialect, 'load' | 'release'> {
  return {
    sample: (request) => ({
      path: '/v1/completions',
      body: completionBody(request),
      policy: request.policy,
      headers: affinityHeaders(request),
      maxAnswerBytes: answerBytes({ ids: request.promptIds.length, told: request.maxTokens }),
      parse: (answer) => readCompletion({ answer, request }),
    }),
    tokenize,
    score: ({ policy, ids }) => ({
      path: '/v1/completions',
      body: scoringBody({ policy, ids, maxTokens: leastTokens }),
      policy,
      maxAnswerBytes: answerBytes({ ids: ids.length, told: ids.length }),
      parse: (answer) => readPromptLogprobs({ answer, ids, policy }),
    }),
    served,
  }
}

/** Every supported engine has this endpoint in this form. */
export const tokenize: Dialect['tokenize'] = ({ policy, text }) => ({
  path: '/tokenize',
  // Switched off explicitly, because engines add special tokens to a plain prompt by default.
  body: { model: policy, prompt: text, add_special_tokens: false },
  policy,
  timeoutMs: SMALL_ANSWER_MS,
  // No text has more tokens than bytes.
  maxAnswerBytes: answerBytes({ ids: Buffer.byteLength(text) }),
  parse: readTokens,
})

export function served(): Exchange<PolicyVersion[]> {
  return { path: '/v1/models', policy: null, timeoutMs: SMALL_ANSWER_MS, parse: readModels }
}

/** Keeps an episode on the server that holds its prefix. These headers are the ones that common routers read; other servers ignore
 *  them. */
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

/** The body of `/v1/completions`. */
export function completionBody({
  policy,
  promptIds,
  maxTokens,
  seed,
  sampling,
  stopTokenIds,
}: Omit<SampleRequest, 'session'>) {
  return {
    model: policy,
    prompt: promptIds,
    max_tokens: maxTokens,
    n: 1,
    ...decodingFields(sampling),
    // If absent, the server's configuration applies, and a watermark biases the samples.
    watermarking: false,
    seed,
    stop_token_ids: stopTokenIds,
    ignore_eos: false,
    min_tokens: 0,
    stream: false,
    echo: false,
    // Requests the sampled token's log-probability without alternatives.
    logprobs: 0,
    return_token_ids: true,
    // Reports which weights sampled each part of the reply. Otherwise a weight update during the reply would go unnoticed.
    return_weight_versions: true,
    // Special tokens inside a reply were sampled, so the text must show them.
    skip_special_tokens: false,
    spaces_between_special_tokens: false,
    include_stop_str_in_output: false,
    // Keeps prefix caches from serving one version's states to another.
    cache_salt: policy,
    request_id: randomUUID(),
  }
}

/** vLLM's label of the weights until a request sets another one. */
export const FIRST_LABEL = 'default'

/**
 * What proves which weights answered: the name that the server was started under, or the label of the weights. The caller of a
 * `witnessed` answer queries the label before and after it, so the answer may lack a label but must not have another one.
 */
export type Proof = 'name' | 'label' | Witnessed

export interface ReadCompletionInput {
  answer: unknown
  request: Pick<SampleRequest, 'policy' | 'promptIds' | 'maxTokens'>
  /** @default name */
  proof?: Proof
}

/**
 * Checks that an answer proves its origin (token ids, one log-probability per id, the prompt and the weights) and that the server did
 * not cut it short.
 * @throws LonghaulError `Model.NoTokenIds`, `Model.NotServed`, `Model.BadResponse`, `Model.Biased`
 */
export function readCompletion({ answer, request, proof = 'name' }: ReadCompletionInput): SampleResult {
  const choice = firstChoice(answer)
  checkVersion({ answer, choice, policy: request.policy, proof })
  const reply = readReply(
    {
      ids: choice['token_ids'],
      echoed: choice['prompt_token_ids'],
      finishReason: choice['finish_reason'],
      text: choice['text'],
      readLogprobs: (ids) => readLogprobs(choice, ids.length),
    },
    request,
  )
  requireRoom(reply, request)
  return reply
}

/**
 * A generation config of the server may hold a length of its own, which no field of a request overrides. Log-probabilities do not show
 * it: what was sampled is the policy's, what the policy would have said next is missing.
 * @throws LonghaulError `Model.Biased`
 */
function requireRoom({ ids, finishReason, policy }: SampleResult, { maxTokens }: ReadCompletionInput['request']): void {
  if (finishReason !== 'length' || ids.length === maxTokens) return
  throw new LonghaulError({
    code: 'Model.Biased',
    message:
      'Expected a reply to end by itself or with the last token that the request allows, the server cut it before: max_new_tokens of a ' +
      'generation config is at work, or a context shorter than the recipe’s. Start it with the flags of `longhaul policy-server command`',
    details: { policy, ids: ids.length, maxTokens },
  })
}

function readLogprobs(choice: Record<string, unknown>, count: number): number[] {
  const logprobs = isObject(choice['logprobs']) ? choice['logprobs']['token_logprobs'] : undefined
  if (!Array.isArray(logprobs)) throw bad('logprobs.token_logprobs', { got: typeof logprobs })
  if (logprobs.length !== count) throw bad('one log-probability per id', { ids: count, logprobs: logprobs.length })
  return logprobs.map(readLogprob)
}

/** @throws LonghaulError `Model.NotServed`, `Model.BadResponse` */
export function checkVersion({
  answer,
  choice,
  policy,
  proof,
}: {
  answer: unknown
  choice: Record<string, unknown>
  policy: string
  proof: Proof
}): void {
  const labels = versionsOf(choice['weight_versions'])
  const model = isObject(answer) ? String(answer['model']) : ''
  // A server with a served model name also has a weight label, which proves nothing unless it is one of our names.
  const told =
    proof === 'name'
      ? [model, ...labels.filter((label) => /^v\d{6}-/.test(label))]
      : labels.filter((label) => label !== FIRST_LABEL)
  const other = told.find((version) => version !== policy)
  if (other !== undefined) throw answeredByAnother(policy, other)
  if (told.length === 0 && proof !== 'witnessed') throw unlabelled(policy)
}

export function firstChoice(answer: unknown): Record<string, unknown> {
  const choices = isObject(answer) ? answer['choices'] : undefined
  const choice: unknown = Array.isArray(choices) ? choices[0] : undefined
  if (!isObject(choice)) throw bad('choices[0]', { got: typeof choices })
  return choice
}

export interface ScoringBodyInput {
  policy: string
  ids: number[]
  /** vLLM samples at least one token; the embedded server can sample none. */
  maxTokens: 0 | 1
}

/** Builds a request for the log-probabilities of the prompt. */
export function scoringBody({ policy, ids, maxTokens }: ScoringBodyInput) {
  return {
    model: policy,
    prompt: ids,
    max_tokens: maxTokens,
    n: 1,
    ...decodingFields(NEUTRAL_SAMPLING),
    watermarking: false,
    seed: 0,
    stop_token_ids: [],
    ignore_eos: false,
    min_tokens: 0,
    stream: false,
    echo: false,
    prompt_logprobs: 0,
    return_token_ids: true,
    return_weight_versions: true,
    skip_special_tokens: false,
    // A cached prefix would return no log-probabilities, or those of other weights. vLLM rejects a slash here.
    cache_salt: `${policy}-score`,
  }
}

/** Returns one value for each of the positions 1…n−1. @throws LonghaulError `Model.BadResponse`, `Model.NotServed` */
export function readPromptLogprobs({
  answer,
  ids,
  policy,
  proof = 'name',
}: {
  answer: unknown
  ids: readonly number[]
  policy: string
  proof?: Proof
}): number[] {
  const choice = firstChoice(answer)
  checkVersion({ answer, choice, policy, proof })
  const scores = choice['prompt_logprobs']
  if (!Array.isArray(scores) || scores.length !== ids.length) {
    throw bad('prompt_logprobs for every position', {
      ids: ids.length,
      got: Array.isArray(scores) ? scores.length : -1,
    })
  }
  return ids.slice(1).map((id, index) => {
    const entry: unknown = scores[index + 1]
    const own = isObject(entry) ? entry[String(id)] : undefined
    const logprob = isObject(own) ? own['logprob'] : undefined
    if (typeof logprob !== 'number')
      throw bad('a log-probability of the prompt’s own token', { position: index + 1, id })
    return logprob
  })
}

/** The server in `trainer/`, which serves several versions concurrently; runs lease them. */
export const embeddedDialect: Dialect = {
  ...completionsDialect({ leastTokens: 0 }),
  async load({ policy, holder, leaseMs }, send) {
    await send({
      path: '/v1/reload',
      body: {
        path: localPath(policy.uri),
        version: policy.version,
        manifest_sha256: policy.manifestSha256,
        holder,
        lease_s: leaseMs / 1000,
      },
      policy: policy.version,
      parse: (answer) => checkLoaded(answer, policy.version),
    })
  },
  release: ({ holder }) => ({ path: '/v1/release', body: { holder }, policy: null, parse: () => null }),
}

function checkLoaded(answer: unknown, version: string): null {
  const loaded = isObject(answer) ? answer['version'] : undefined
  if (loaded !== version)
    throw bad('the loaded version to be the requested one', { asked: version, loaded: String(loaded) })
  return null
}

/** @throws LonghaulError `Config.Invalid` for a policy that is not in the local file system */
export function localPath(uri: string): string {
  if (uri.startsWith('file://')) return fileURLToPath(uri)
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: 'Expected a file:// policy directory: a policy server loads from its own file system',
    details: { uri },
  })
}
