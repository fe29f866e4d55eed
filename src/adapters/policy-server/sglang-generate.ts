import { randomUUID } from 'node:crypto'
import { NEUTRAL_SAMPLING } from '../../contracts/neutral-sampling.ts'
import type { SampleRequest, SampleResult } from '../../contracts/policy.types.ts'
import { bad, isObject } from './answer.ts'
import { decodingFields } from './decoding-fields.ts'
import { answeredByAnother, readLogprob, readReply, versionsOf } from './reply.ts'

/** The body of `/generate`, every decoding field spelled: `--preferred-sampling-params` of a server fills what is left out. */
export function generateBody(request: Omit<SampleRequest, 'session'>) {
  const { policy, promptIds, maxTokens, seed, sampling, stopTokenIds } = request
  return {
    input_ids: promptIds,
    sampling_params: {
      max_new_tokens: maxTokens,
      min_new_tokens: 0,
      n: 1,
      ...decodingFields(sampling),
      // Heeded by servers that were started with --enable-deterministic-inference.
      sampling_seed: seed,
      stop: [],
      stop_regex: [],
      stop_token_ids: stopTokenIds,
      ignore_eos: false,
      // Special tokens inside a reply belong to what was sampled: the text must show them.
      skip_special_tokens: false,
      spaces_between_special_tokens: false,
      no_stop_trim: false,
      logit_bias: {},
      watermark: { enabled: false },
    },
    return_logprob: true,
    // The reply's own, none of the prompt's.
    logprob_start_len: -1,
    top_logprobs_num: 0,
    return_text_in_logprobs: false,
    return_prompt_token_ids: true,
    stream: false,
    // Prefix caches never serve one version's states to another.
    cache_salt: policy,
    rid: randomUUID(),
  }
}

export interface ReadGeneratedInput {
  answer: unknown
  request: Pick<SampleRequest, 'policy' | 'promptIds' | 'maxTokens'>
}

/** @throws LonghaulError `Model.NoTokenIds`, `Model.NotServed`, `Model.BadResponse` */
export function readGenerated({ answer, request }: ReadGeneratedInput): SampleResult {
  const meta = readMeta(answer, request.policy)
  const { output_ids: ids, prompt_token_ids: echoed, text } = answer as Record<string, unknown>
  const finishReason = isObject(meta['finish_reason']) ? meta['finish_reason']['type'] : undefined
  const readLogprobs = (sampled: number[]): number[] =>
    readPairs(meta['output_token_logprobs'], sampled).map((value) => readLogprob(value))
  return readReply({ ids, echoed, finishReason, text, readLogprobs }, request)
}

/** Asks for the prompt's own log-probabilities; the one token that is sampled besides is not looked at. */
export function scoreBody({ policy, ids }: { policy: string; ids: number[] }) {
  const body = generateBody({
    policy,
    promptIds: ids,
    maxTokens: 1,
    seed: 0,
    sampling: NEUTRAL_SAMPLING,
    stopTokenIds: [],
  })
  // A cached prefix would come without log-probabilities.
  return { ...body, logprob_start_len: 0, cache_salt: `${policy}-score` }
}

/** One value for each of positions 1…n−1. @throws LonghaulError `Model.BadResponse`, `Model.NotServed` */
export function readScores({
  answer,
  ids,
  policy,
}: {
  answer: unknown
  ids: readonly number[]
  policy: string
}): number[] {
  const scores = readPairs(readMeta(answer, policy)['input_token_logprobs'], ids)
  return scores.slice(1).map((value, index) => {
    if (typeof value !== 'number') throw bad('a log-probability of the prompt’s own token', { position: index + 1 })
    return value
  })
}

/** What the server tells beside the text, once it is clear that the asked weights answered, and no others on the way. */
function readMeta(answer: unknown, policy: string): Record<string, unknown> {
  const meta = isObject(answer) ? answer['meta_info'] : undefined
  if (!isObject(meta)) throw bad('meta_info', { got: typeof meta })
  const versions = [String(meta['weight_version']), ...versionsOf(meta['weight_versions'])]
  const other = versions.find((version) => version !== policy)
  if (other !== undefined) throw answeredByAnother(policy, other)
  return meta
}

/** `[[log-probability, id, text], …]`: the ids must be those they stand beside. */
function readPairs(list: unknown, ids: readonly number[]): unknown[] {
  if (!Array.isArray(list) || list.length !== ids.length) {
    throw bad('one log-probability an id', { ids: ids.length, logprobs: Array.isArray(list) ? list.length : -1 })
  }
  return list.map((pair: unknown, index) => {
    if (!Array.isArray(pair) || pair[1] !== ids[index]) throw bad('log-probabilities of the ids', { position: index })
    return pair[0] as unknown
  })
}
