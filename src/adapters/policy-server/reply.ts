import { isObject } from '../../domain/shapes.ts'
/** What a reply must prove, whichever engine sampled it. */
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import type { SampleRequest, SampleResult } from '../../contracts/policy.types.ts'

/** Sampled log-probabilities are ≤ 0, but rounding in the server's softmax may raise one slightly above. */
const HIGHEST_LOGPROB = 1e-3

/** vLLM writes minus infinity as this value. */
const LOWEST_LOGPROB = -9999

/** A reply as reported by the server, independent of where its answer holds the parts. */
export interface ToldReply {
  ids: unknown
  /** The prompt that the server says it answered. */
  echoed: unknown
  finishReason: unknown
  text: unknown
  /** Called last, with validated ids. @throws LonghaulError `Model.BadResponse` unless there is one value per id */
  readLogprobs: (ids: number[]) => number[]
}

/**
 * Checks the ids, the prompt, the finish reason, the text, and that there is one log-probability per id. The caller checks beforehand
 * that the requested weights answered.
 * @throws LonghaulError `Model.NoTokenIds`, `Model.BadResponse`
 */
export function readReply(
  { ids, echoed, finishReason, text, readLogprobs }: ToldReply,
  { policy, promptIds, maxTokens }: Pick<SampleRequest, 'policy' | 'promptIds' | 'maxTokens'>,
): SampleResult {
  if (!Array.isArray(ids) || !Array.isArray(echoed)) throw withoutIds(policy)
  if (!isIdList(ids) || ids.length === 0) throw bad('at least one sampled id', { ids: ids.length })
  if (ids.length > maxTokens) throw bad('at most maxTokens sampled ids', { ids: ids.length, maxTokens })
  if (!isSameList(echoed, promptIds)) {
    throw bad('the answer to the prompt that was sent', { sent: promptIds.length, echoed: echoed.length })
  }
  // For example `abort`: the server gave up the request midway (a pause, a reload).
  if (finishReason !== 'stop' && finishReason !== 'length') {
    throw bad('a finished reply', { finish: String(finishReason) })
  }
  if (typeof text !== 'string') throw bad('the text of the reply', { text: typeof text })
  return { ids, logprobs: readLogprobs(ids), text, finishReason, policy }
}

/**
 * Non-finite values arrive as null, because JSON has no NaN, and become NaN here. The batch writer drops and counts such tokens.
 * @throws LonghaulError `Model.BadResponse`
 */
export function readLogprob(value: unknown): number {
  if (value === null || (typeof value === 'number' && value <= LOWEST_LOGPROB)) return Number.NaN
  if (typeof value !== 'number' || value > HIGHEST_LOGPROB)
    throw bad('log-probabilities ≤ 0', { got: JSON.stringify(value) })
  return value
}

/** Parses `[{version, start, end}]`, one entry per part of the reply. @throws LonghaulError `Model.BadResponse` */
export function versionsOf(spans: unknown): string[] {
  if (spans === null || spans === undefined) return []
  if (!Array.isArray(spans)) throw bad('weight_versions to be a list', { got: typeof spans })
  return spans.map((span: unknown) => {
    const version = isObject(span) ? span['version'] : undefined
    if (typeof version !== 'string') throw bad('a version in each of weight_versions', { got: typeof version })
    return version
  })
}

/** The error for an answer of other weights than requested. Such an answer would corrupt every ratio of the batch. */
export function answeredByAnother(asked: string, answered: string): LonghaulError {
  return new LonghaulError({
    code: 'Model.NotServed',
    message: 'Expected the requested policy to answer, but another one did',
    details: { asked, answered },
  })
}

const UNLABELLED = 'weights without a label'

/** The error for an answer that does not name its weights. */
export function unlabelled(asked: string): LonghaulError {
  return answeredByAnother(asked, UNLABELLED)
}

export function isUnlabelled(error: unknown): boolean {
  return isLonghaulError(error) && error.code === 'Model.NotServed' && error.details['answered'] === UNLABELLED
}

function withoutIds(policy: string): LonghaulError {
  return new LonghaulError({
    code: 'Model.NoTokenIds',
    message:
      'Expected token_ids and prompt_token_ids in the answer (return_token_ids: true). This server ignores the field, so ' +
      'nothing it samples can be trained on: use a server that returns ids (vLLM ≥ 0.10.2, or policyServer.kind: embedded)',
    details: { policy },
  })
}

function isSameList(a: readonly unknown[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((id, index) => id === b[index])
}

export function bad(expected: string, details: Record<string, string | number | boolean | null>): LonghaulError {
  return new LonghaulError({
    code: 'Model.BadResponse',
    message: `Expected ${expected} from the policy server`,
    details,
  })
}

/** Batches hold ids as 32-bit integers, where a larger one would become another token. */
const HIGHEST_ID = 2 ** 31 - 1

export function isIdList(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((id) => Number.isInteger(id) && id >= 0 && id <= HIGHEST_ID)
}
