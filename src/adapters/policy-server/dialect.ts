/** What all dialects share: their interface, the checks of a reply, and the reading of an event stream. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { PolicyRef, PolicyVersion, SampleRequest, SampleResult } from '../../contracts/policy.types.ts'
import type { SamplingOptions } from '../../contracts/episodes.types.ts'
import { LonghaulError, isLonghaulError } from '../../contracts/errors.ts'
import { isObject } from '../../domain/shapes.ts'

/** One request to a server: its address, its body and the parser of its answer. */
export interface Exchange<T> {
  /** Includes the query, if there is one. */
  path: string
  /** Absent for GET. */
  body?: object
  /** Policy that the request names, or that must answer; null if the request does not concern a policy. */
  policy: PolicyVersion | null
  headers?: Record<string, string>
  /** For answers that are short and immediate. @default the limit of a sample */
  timeoutMs?: number
  /** Largest answer that an honest server gives. @default SMALL_ANSWER_BYTES */
  maxAnswerBytes?: number
  /** Reads a 200 answer. @throws LonghaulError @param tookMs as in `ServerAsk` */
  parse: (answer: unknown, tookMs?: number) => T
}

/** The server is asked for its version before and after the answer, so the answer itself need not name it. */
export type Witnessed = 'witnessed'

export interface LoadAsk {
  policy: PolicyRef
  holder: string
  leaseMs: number
}

/** Sends an exchange and retries it. */
export type Send = <T>(exchange: Exchange<T>) => Promise<T>

/**
 * The protocol of one kind of server. It only builds requests and opens no connection, so that a test can check every request against
 * the server's own classes.
 */
export interface Dialect {
  /** @param proof further evidence of which weights answered. @default none, the answer must prove it */
  sample(request: SampleRequest, proof?: Witnessed): Exchange<SampleResult>
  tokenize(request: { policy: PolicyVersion; text: string }): Exchange<number[]>
  score(request: { policy: PolicyVersion; ids: number[] }, proof?: Witnessed): Exchange<number[]>
  /**
   * Asks for the version that the server holds. Used before and after an answer that does not name its weights; absent if answers
   * always name them. A load aborts requests in flight, so an answer between two equal versions comes from that version.
   */
  held?(send: Send): Promise<PolicyVersion>
  served(): Exchange<PolicyVersion[]>
  /** Makes the server serve the policy, or verifies that it already does. Idempotent. */
  load(ask: LoadAsk, send: Send): Promise<void>
  /** Absent if the server has no leases. */
  release?(request: { holder: string }): Exchange<null>
}

/** Limit for lists, tokenization and leases: a server that takes longer for these is unhealthy. */
export const SMALL_ANSWER_MS = 60_000

/** Bytes of an answer that does not grow with what was asked. JSON of a size takes up to thirty times as much memory, and the main thread
 *  parses it: 256 MiB of `[],[],` ended a worker. */
export const SMALL_ANSWER_BYTES = 2 * 1024 * 1024

/** Bytes of the longest spelling of an id, with what separates it from the next. */
const ID_BYTES = 32

/** Bytes of a token with its id, its log-probability, its rank and three spellings of its text. The longest tokens have 128 characters. */
const TOLD_TOKEN_BYTES = 1024

/** Largest honest answer, in bytes, to a request that makes a server repeat ids, tell tokens in full, or both. */
export function answerBytes({ ids, told = 0 }: { ids: number; told?: number }): number {
  return SMALL_ANSWER_BYTES + ids * ID_BYTES + told * TOLD_TOKEN_BYTES
}

/**
 * Every decoding field, by the name that vLLM, SGLang and the embedded server share. An omitted field falls back to the engine's
 * default or to the model's generation config, which silently biases the distribution.
 */
export function decodingFields(sampling: SamplingOptions) {
  return {
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: sampling.topK,
    min_p: sampling.minP,
    repetition_penalty: sampling.repetitionPenalty,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
  }
}

/** The error for a server that serves another policy and must be restarted to change it. */
export function notRestarted({
  kind,
  policy,
  served,
}: {
  kind: 'vllm' | 'sglang'
  policy: PolicyRef
  served: string
}): LonghaulError {
  const flag = kind === 'vllm' ? '--served-model-name' : '--weight-version'
  return new LonghaulError({
    code: 'Model.NotServed',
    message:
      `Expected the ${kind} server to serve the policy. Restart it on the policy’s directory with ${flag} ${policy.version} ` +
      `and the other flags of its start command, or let it read new weights itself (policyServer.publish: reload)`,
    details: { served, directory: policy.uri },
  })
}

/** Prefix of the label of a server that is loading new weights, or was interrupted while loading. */
export const LOADING = 'loading-'

/** The route does not exist or refuses this client, so the server has not started the request. */
const NOT_BEGUN: readonly unknown[] = [401, 403, 404, 405]

const RELOAD_FIXES = {
  vllm: 'start it with VLLM_SERVER_DEV_MODE=1 and the other words that `longhaul policy-server command --publish reload` prints',
  sglang: 'start it with the words that `longhaul policy-server command --kind sglang --publish reload` prints',
} as const

interface ReloadSteps<Held> {
  kind: keyof typeof RELOAD_FIXES
  /** Returns what the server holds before anything is changed. */
  look: () => Promise<Held>
  reload: (held: Held) => Promise<void>
  /** Undoes the steps before a reload that the server refused, so that it keeps serving its weights. */
  takeBack: (held: Held) => Promise<unknown>
}

/** Reloads the weights of a server. @throws LonghaulError `Config.Invalid` if the server cannot reload; it then still serves its old
 *  weights */
export async function reloadOrLeave<Held>({ kind, look, reload, takeBack }: ReloadSteps<Held>): Promise<void> {
  const explained = (error: unknown): unknown => {
    if (!isLonghaulError(error) || !NOT_BEGUN.includes(error.details['status'])) return error
    const isKey = error.details['status'] === 401 || error.details['status'] === 403
    const fix = isKey ? 'give the trainer worker its key in LONGHAUL_POLICY_API_KEY' : RELOAD_FIXES[kind]
    return new LonghaulError({
      code: 'Config.Invalid',
      message:
        `Expected the ${kind} server to read new weights in place (policyServer.publish: reload), but it refuses ` +
        `${String(error.details['url'])} with ${String(error.details['status'])}: ${fix}, or publish by restart (policyServer.publish: restart)`,
      cause: error,
    })
  }
  const held = await look().catch((error: unknown) => {
    throw explained(error)
  })
  try {
    await reload(held)
  } catch (error) {
    const told = explained(error)
    // A failure of the undo is ignored, because it would hide the reason. The next attempt handles the state of an interrupted reload.
    if (told !== error) await takeBack(held).catch(() => undefined)
    throw told
  }
}

// What a reply must prove, whichever engine sampled it.

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

export interface StreamEvent {
  /** Of its `event` field; empty if it has none. */
  name: string
  data: string
}

/** Characters of one event. Each token has its own of some 250; a server that sends a whole reply as one stays far below this too. */
const MOST_OF_EVENT = 1024 * 1024

const LINE_END = /\r\n|\n|\r/

/**
 * Reads server-sent events and hands each to `take`, until it returns false. Keeps no event, takes time linear in the bytes, however they
 * are cut into lines and chunks, and lets other work of the process run after each chunk. Throws a plain `Error` for an event over a
 * mebibyte.
 */
export async function readEvents(
  body: AsyncIterable<Uint8Array>,
  take: (event: StreamEvent) => boolean,
): Promise<void> {
  const decoder = new TextDecoder()
  let line = ''
  let endsInReturn = false
  let name = ''
  let data = null as string | null

  for await (const chunk of body) {
    let text = decoder.decode(chunk, { stream: true })
    // The second half of a line's end that the chunks separate.
    if (endsInReturn && text !== '') text = text.replace(/^\n/, '')
    endsInReturn = text === '' ? endsInReturn : text.endsWith('\r')
    const [first = '', ...others] = text.split(LINE_END)
    line += first
    for (const next of others) {
      if (!takeLine()) return
      line = next
    }
    if (line.length + (data?.length ?? 0) > MOST_OF_EVENT) throw new Error(`event over ${MOST_OF_EVENT} characters`)
    await nextTurn()
  }

  function takeLine(): boolean {
    if (line !== '') {
      readField()
      return true
    }
    const event = data === null ? null : { name, data }
    name = ''
    data = null
    return event === null || take(event)
  }

  function readField(): void {
    const colon = line.indexOf(':')
    const field = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (field === 'event') name = value
    if (field === 'data') data = data === null ? value : `${data}\n${value}`
  }
}
