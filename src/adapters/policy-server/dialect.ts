import type { PolicyRef, PolicyVersion, SampleRequest, SampleResult } from '../../contracts/policy.types.ts'
import type { SamplingOptions } from '../../contracts/episodes.types.ts'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'

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
  /** Reads a 200 answer. @throws LonghaulError */
  parse: (answer: unknown) => T
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
