import { randomUUID } from 'node:crypto'
import { LonghaulError } from '../../contracts/errors.ts'
import type { SampleRequest, SampleResult } from '../../contracts/policy.types.ts'

/** Sampled log-probabilities are ≤ 0; rounding in the server's softmax may lift one a little above. */
const HIGHEST_LOGPROB = 1e-3

/**
 * The body of `/v1/completions`. Every decoding field is there: one left out falls back to the engine's default or to the
 * model's generation config, which biases the distribution silently (recipe.md §2.5).
 */
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
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: sampling.topK,
    min_p: sampling.minP,
    repetition_penalty: sampling.repetitionPenalty,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
    // Absent means what the server was configured to: a watermark is a bias.
    watermarking: false,
    seed,
    stop_token_ids: stopTokenIds,
    ignore_eos: false,
    min_tokens: 0,
    stream: false,
    echo: false,
    // The sampled token's own log-probability, no alternatives.
    logprobs: 0,
    return_token_ids: true,
    // Which weights sampled each stretch of the reply; without it an update in the middle of a reply would go unseen.
    return_weight_versions: true,
    // Special tokens inside a reply belong to what was sampled: the text must show them.
    skip_special_tokens: false,
    spaces_between_special_tokens: false,
    include_stop_str_in_output: false,
    // Prefix caches never serve one version's states to another.
    cache_salt: policy,
    request_id: randomUUID(),
  }
}

/** What says which weights answered: the name that the server was started under, or the label of the weights themselves. */
export type Proof = 'name' | 'label'

export interface ReadCompletionInput {
  answer: unknown
  request: Pick<SampleRequest, 'policy' | 'promptIds' | 'maxTokens'>
  /** @default name */
  proof?: Proof
}

/**
 * Checks that the answer proves what it claims: ids, one log-probability each, the prompt it answered and the weights that did.
 * @throws LonghaulError `Model.NoTokenIds`, `Model.NotServed`, `Model.BadResponse`
 */
export function readCompletion({ answer, request, proof = 'name' }: ReadCompletionInput): SampleResult {
  const { policy, promptIds, maxTokens } = request
  const choice = firstChoice(answer)
  checkVersion({ answer, choice, policy, proof })
  const ids = choice['token_ids']
  const echoed = choice['prompt_token_ids']
  if (!Array.isArray(ids) || !Array.isArray(echoed)) throw withoutIds(policy)
  if (!isIdList(ids) || ids.length === 0) throw bad('at least one sampled id', { ids: ids.length })
  if (ids.length > maxTokens) throw bad('at most maxTokens sampled ids', { ids: ids.length, maxTokens })
  if (!isSameList(echoed, promptIds)) {
    throw bad('the answer to the prompt that was sent', { sent: promptIds.length, echoed: echoed.length })
  }
  const finishReason = choice['finish_reason']
  // `abort` and the like: the server gave the request up half-way (a pause, a reload).
  if (finishReason !== 'stop' && finishReason !== 'length')
    throw bad('a finished reply', { finish: String(finishReason) })
  const text = choice['text']
  if (typeof text !== 'string') throw bad('the text of the reply', { text: typeof text })
  return { ids, logprobs: readLogprobs(choice, ids.length), text, finishReason, policy }
}

/** vLLM writes minus infinity as this. */
const LOWEST_LOGPROB = -9999

/** Non-finite values come as null (JSON has no NaN) and stay NaN here: the batch writer drops and counts such tokens. */
function readLogprobs(choice: Record<string, unknown>, count: number): number[] {
  const logprobs = isObject(choice['logprobs']) ? choice['logprobs']['token_logprobs'] : undefined
  if (!Array.isArray(logprobs)) throw bad('logprobs.token_logprobs', { got: typeof logprobs })
  if (logprobs.length !== count) throw bad('one log-probability an id', { ids: count, logprobs: logprobs.length })
  return logprobs.map(readLogprob)
}

/** @throws LonghaulError `Model.BadResponse` */
export function readLogprob(value: unknown): number {
  if (value === null || (typeof value === 'number' && value <= LOWEST_LOGPROB)) return Number.NaN
  if (typeof value !== 'number' || value > HIGHEST_LOGPROB)
    throw bad('log-probabilities ≤ 0', { got: JSON.stringify(value) })
  return value
}

/** A server that answers with other weights than asked would poison every ratio of the batch. */
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
  // A server that is told a name has a label of its own, which proves nothing unless it is one of our names.
  const told = proof === 'name' ? [model, ...labels.filter((label) => /^v\d{6}-/.test(label))] : labels
  const other = told.find((version) => version !== policy)
  if (told.length > 0 && other === undefined) return
  throw answeredByAnother(policy, other ?? 'weights without a label')
}

/** `[{version, start, end}]`, a stretch of the reply each. @throws LonghaulError `Model.BadResponse` */
export function versionsOf(spans: unknown): string[] {
  if (spans === null || spans === undefined) return []
  if (!Array.isArray(spans)) throw bad('weight_versions to be a list', { got: typeof spans })
  return spans.map((span: unknown) => {
    const version = isObject(span) ? span['version'] : undefined
    if (typeof version !== 'string') throw bad('a version in each of weight_versions', { got: typeof version })
    return version
  })
}

export function answeredByAnother(asked: string, answered: string): LonghaulError {
  return new LonghaulError({
    code: 'Model.NotServed',
    message: 'Expected the asked policy to answer, another one did',
    details: { asked, answered },
  })
}

export function firstChoice(answer: unknown): Record<string, unknown> {
  const choices = isObject(answer) ? answer['choices'] : undefined
  const choice: unknown = Array.isArray(choices) ? choices[0] : undefined
  if (!isObject(choice)) throw bad('choices[0]', { got: typeof choices })
  return choice
}

export function withoutIds(policy: string): LonghaulError {
  return new LonghaulError({
    code: 'Model.NoTokenIds',
    message:
      'Expected token_ids and prompt_token_ids in the answer (return_token_ids: true). This server ignores the field, so ' +
      'nothing it samples can be trained on: use a server that returns ids (vLLM ≥ 0.10.2, or policyServer.kind: embedded)',
    details: { policy },
  })
}

export function bad(wish: string, details: Record<string, string | number | boolean | null>): LonghaulError {
  return new LonghaulError({ code: 'Model.BadResponse', message: `Expected ${wish} from the policy server`, details })
}

export function isIdList(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((id) => Number.isInteger(id) && id >= 0)
}

export function isSameList(a: readonly unknown[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((id, index) => id === b[index])
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
