import type { PolicyServerRecipe } from '../../contracts/recipe.types.ts'
import { bad, isObject } from './completion.ts'

export interface ScoringBodyInput {
  kind: PolicyServerRecipe['kind']
  policy: string
  ids: number[]
}

/** Asks for the prompt's own log-probabilities. vLLM samples at least one token; the embedded server need not. */
export function scoringBody({ kind, policy, ids }: ScoringBodyInput) {
  return {
    model: policy,
    prompt: ids,
    max_tokens: kind === 'embedded' ? 0 : 1,
    n: 1,
    temperature: 1,
    top_p: 1,
    top_k: -1,
    min_p: 0,
    repetition_penalty: 1,
    presence_penalty: 0,
    frequency_penalty: 0,
    seed: 0,
    prompt_logprobs: 0,
    return_token_ids: true,
    // A cached prefix would come without log-probabilities, or with those of other weights.
    cache_salt: `${policy}/score`,
  }
}

/** One value for each of positions 1…n−1. @throws LonghaulError `Model.BadResponse` */
export function readPromptLogprobs({ answer, ids }: { answer: unknown; ids: readonly number[] }): number[] {
  const choices = isObject(answer) ? answer['choices'] : undefined
  const choice: unknown = Array.isArray(choices) ? choices[0] : undefined
  const scores = isObject(choice) ? choice['prompt_logprobs'] : undefined
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
