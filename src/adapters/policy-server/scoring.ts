import { NEUTRAL_SAMPLING } from '../../contracts/neutral-sampling.ts'
import { bad, isObject } from './answer.ts'
import { checkVersion, firstChoice, type Proof } from './completion.ts'
import { decodingFields } from './decoding-fields.ts'

export interface ScoringBodyInput {
  policy: string
  ids: number[]
  /** vLLM samples at least one token; the embedded server need not. */
  maxTokens: 0 | 1
}

/** Asks for the prompt's own log-probabilities. */
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
    // A cached prefix would come without log-probabilities, or with those of other weights. vLLM refuses a slash here.
    cache_salt: `${policy}-score`,
  }
}

/** One value for each of positions 1…n−1. @throws LonghaulError `Model.BadResponse`, `Model.NotServed` */
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
