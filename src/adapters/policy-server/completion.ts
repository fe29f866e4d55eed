import { randomUUID } from 'node:crypto'
import type { SampleRequest, SampleResult } from '../../contracts/policy.types.ts'
import { bad, isObject } from './answer.ts'
import { decodingFields } from './decoding-fields.ts'
import { answeredByAnother, readLogprob, readReply, versionsOf } from './reply.ts'

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
  const choice = firstChoice(answer)
  checkVersion({ answer, choice, policy: request.policy, proof })
  return readReply(
    {
      ids: choice['token_ids'],
      echoed: choice['prompt_token_ids'],
      finishReason: choice['finish_reason'],
      text: choice['text'],
      readLogprobs: (ids) => readLogprobs(choice, ids.length),
    },
    request,
  )
}

function readLogprobs(choice: Record<string, unknown>, count: number): number[] {
  const logprobs = isObject(choice['logprobs']) ? choice['logprobs']['token_logprobs'] : undefined
  if (!Array.isArray(logprobs)) throw bad('logprobs.token_logprobs', { got: typeof logprobs })
  if (logprobs.length !== count) throw bad('one log-probability an id', { ids: count, logprobs: logprobs.length })
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
  // A server that is told a name has a label of its own, which proves nothing unless it is one of our names.
  const told = proof === 'name' ? [model, ...labels.filter((label) => /^v\d{6}-/.test(label))] : labels
  const other = told.find((version) => version !== policy)
  if (told.length > 0 && other === undefined) return
  throw answeredByAnother(policy, other ?? 'weights without a label')
}

export function firstChoice(answer: unknown): Record<string, unknown> {
  const choices = isObject(answer) ? answer['choices'] : undefined
  const choice: unknown = Array.isArray(choices) ? choices[0] : undefined
  if (!isObject(choice)) throw bad('choices[0]', { got: typeof choices })
  return choice
}
