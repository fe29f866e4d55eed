import type { PolicyVersion, SampleRequest, SampleResult } from '../../contracts/policy.types.ts'
import { isObject } from '../../domain/shapes.ts'
import {
  type Dialect,
  type Exchange,
  LOADING,
  type LoadAsk,
  SMALL_ANSWER_MS,
  type Send,
  answerBytes,
  answeredByAnother,
  bad,
  decodingFields,
  notRestarted,
  readLogprob,
  readReply,
  reloadOrLeave,
  versionsOf,
} from './dialect.ts'
import { affinityHeaders, tokenize, localPath } from './completions-dialect.ts'
import { randomUUID } from 'node:crypto'
import { NEUTRAL_SAMPLING } from '../../contracts/neutral-sampling.ts'

/**
 * SGLang through its native `/generate`, because the OpenAI endpoint returns no ids. Requests name no model. The proof of the weights
 * is `weight_version` in every answer, and an answer with another version is refused. Requests were verified against SGLang 0.5.23.
 * @param reload whether new weights are loaded in place (`/update_weights_from_disk`) or by the operator's restart
 */
export function sglangDialect({ reload }: { reload: boolean }): Dialect {
  return {
    sample: (request) => ({
      path: '/generate',
      body: generateBody(request),
      policy: request.policy,
      headers: affinityHeaders(request),
      maxAnswerBytes: answerBytes({ ids: request.promptIds.length, told: request.maxTokens }),
      parse: (answer) => readGenerated({ answer, request }),
    }),
    tokenize,
    score: ({ policy, ids }) => ({
      path: '/generate',
      body: scoreBody({ policy, ids }),
      policy,
      maxAnswerBytes: answerBytes({ ids: ids.length, told: ids.length }),
      parse: (answer) => readScores({ answer, ids, policy }),
    }),
    served,
    async load({ policy, ...ask }, send) {
      const look = async (): Promise<string> => (await send(served()))[0] ?? ''
      if (!reload) {
        const version = await look()
        if (version !== policy.version) throw notRestarted({ kind: 'sglang', policy, served: version })
        return
      }
      await reloadOrLeave({
        kind: 'sglang',
        look,
        reload: (version) =>
          version === policy.version ? send(goOn()).then(() => undefined) : reloadInPlace({ policy, ...ask }, send),
        async takeBack(version) {
          if (version.startsWith(LOADING)) return
          await send(relabel(version))
          await send(goOn())
        },
      })
    },
  }
}

function served(): Exchange<PolicyVersion[]> {
  return { path: '/model_info', policy: null, timeoutMs: SMALL_ANSWER_MS, parse: readVersion }
}

/**
 * Clears the label first and sets it last: after a failure in between, the server answers under a name that no client requests, and the
 * next attempt starts over. Requests of other runs wait meanwhile. Requests in flight are aborted and sampled again.
 */
async function reloadInPlace({ policy }: LoadAsk, send: Send): Promise<void> {
  const { version } = policy
  await send({ path: '/pause_generation', body: { mode: 'abort' }, policy: null, parse: () => null })
  await send(relabel(`${LOADING}${version}`))
  await send({
    path: '/update_weights_from_disk',
    body: {
      model_path: localPath(policy.uri),
      weight_version: version,
      abort_all_requests: true,
      flush_cache: true,
    },
    policy: null,
    parse: readUpdated,
  })
  await send(goOn())
  const [now] = await send(served())
  if (now !== version) throw bad('the loaded version to be the requested one', { asked: version, loaded: now ?? '' })
}

function relabel(version: string): Exchange<null> {
  return {
    path: '/update_weight_version',
    body: { new_version: version, abort_all_requests: true },
    policy: null,
    parse: () => null,
  }
}

function goOn(): Exchange<null> {
  return { path: '/continue_generation', body: { torch_empty_cache: true }, policy: null, parse: () => null }
}

function readVersion(answer: unknown): PolicyVersion[] {
  const version = isObject(answer) ? answer['weight_version'] : undefined
  if (typeof version !== 'string') throw bad('weight_version in /model_info', { got: typeof version })
  return [version]
}

function readUpdated(answer: unknown): null {
  if (isObject(answer) && answer['success'] === true) return null
  const told = isObject(answer) ? String(answer['message']) : typeof answer
  throw bad('the weights to be read from disk', { told: told.slice(0, 200) })
}

/** The body of `/generate`. It sets every decoding field, because `--preferred-sampling-params` of a server fills in omitted ones. */
export function generateBody(request: Omit<SampleRequest, 'session'>) {
  const { policy, promptIds, maxTokens, seed, sampling, stopTokenIds } = request
  return {
    input_ids: promptIds,
    sampling_params: {
      max_new_tokens: maxTokens,
      min_new_tokens: 0,
      n: 1,
      ...decodingFields(sampling),
      // Effective on servers that were started with --enable-deterministic-inference.
      sampling_seed: seed,
      stop: [],
      stop_regex: [],
      stop_token_ids: stopTokenIds,
      ignore_eos: false,
      // Special tokens inside a reply were sampled, so the text must show them.
      skip_special_tokens: false,
      spaces_between_special_tokens: false,
      no_stop_trim: false,
      logit_bias: {},
      watermark: { enabled: false },
    },
    return_logprob: true,
    // Log-probabilities of the reply only, not of the prompt.
    logprob_start_len: -1,
    top_logprobs_num: 0,
    return_text_in_logprobs: false,
    return_prompt_token_ids: true,
    stream: false,
    // Keeps prefix caches from serving one version's states to another.
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

/** Builds a request for the prompt's log-probabilities. The one token that is also sampled is ignored. */
export function scoreBody({ policy, ids }: { policy: string; ids: number[] }) {
  const body = generateBody({
    policy,
    promptIds: ids,
    maxTokens: 1,
    seed: 0,
    sampling: NEUTRAL_SAMPLING,
    stopTokenIds: [],
  })
  // A cached prefix would return no log-probabilities.
  return { ...body, logprob_start_len: 0, cache_salt: `${policy}-score` }
}

/** Returns one value for each of the positions 1…n−1. @throws LonghaulError `Model.BadResponse`, `Model.NotServed` */
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

/** Returns the metadata of an answer, after proving that the requested weights produced every part of the reply. */
function readMeta(answer: unknown, policy: string): Record<string, unknown> {
  const meta = isObject(answer) ? answer['meta_info'] : undefined
  if (!isObject(meta)) throw bad('meta_info', { got: typeof meta })
  const versions = [String(meta['weight_version']), ...versionsOf(meta['weight_versions'])]
  const other = versions.find((version) => version !== policy)
  if (other !== undefined) throw answeredByAnother(policy, other)
  return meta
}

/** Parses `[[log-probability, id, text], …]` and checks that each id matches the reply's. */
function readPairs(list: unknown, ids: readonly number[]): unknown[] {
  if (!Array.isArray(list) || list.length !== ids.length) {
    throw bad('one log-probability per id', { ids: ids.length, logprobs: Array.isArray(list) ? list.length : -1 })
  }
  return list.map((pair: unknown, index) => {
    if (!Array.isArray(pair) || pair[1] !== ids[index]) throw bad('log-probabilities of the ids', { position: index })
    return pair[0] as unknown
  })
}
