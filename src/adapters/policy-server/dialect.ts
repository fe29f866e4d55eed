import type { PolicyRef, PolicyVersion, SampleRequest, SampleResult } from '../../contracts/policy.types.ts'
import type { SamplingOptions } from '../../contracts/episodes.types.ts'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'

/** One question to a server: where it goes, what it says, how the answer is read. */
export interface Exchange<T> {
  /** With its query, if it has one. */
  path: string
  /** Absent: GET. */
  body?: object
  /** Policy that the question names, or that must answer; null where it is about no policy. */
  policy: PolicyVersion | null
  headers?: Record<string, string>
  /** For answers that are short and come at once. @default as long as a sample may take */
  timeoutMs?: number
  /** Reads a 200 answer. @throws LonghaulError */
  parse: (answer: unknown) => T
}

/** The version that the server holds is asked before and after the answer: the answer itself need not say it. */
export type Witnessed = 'witnessed'

export interface LoadAsk {
  policy: PolicyRef
  holder: string
  leaseMs: number
}

/** Puts an exchange on the wire, with its retries. */
export type Send = <T>(exchange: Exchange<T>) => Promise<T>

/**
 * The protocol of one kind of server. Builders only: nothing here opens a connection, so that a test can hold every request
 * against the server's own classes.
 */
export interface Dialect {
  /** @param proof what else says which weights answered. @default none but the answer */
  sample(request: SampleRequest, proof?: Witnessed): Exchange<SampleResult>
  tokenize(request: { policy: PolicyVersion; text: string }): Exchange<number[]>
  score(request: { policy: PolicyVersion; ids: number[] }, proof?: Witnessed): Exchange<number[]>
  /**
   * The version that the server holds, to be asked before and after an answer that does not say which weights gave it; absent
   * where answers always say it. A load aborts what is in flight, so an answer between two equal versions is of that version.
   */
  held?(send: Send): Promise<PolicyVersion>
  served(): Exchange<PolicyVersion[]>
  /** Makes the server answer with the policy, or proves that it does already. Repeating it changes nothing. */
  load(ask: LoadAsk, send: Send): Promise<void>
  /** Absent where a server knows no leases. */
  release?(request: { holder: string }): Exchange<null>
}

/** A list, a prompt's ids, a lease: a server that takes longer for these is unhealthy. */
export const SMALL_ANSWER_MS = 60_000

/**
 * Every decoding field by the name that vLLM, SGLang and the embedded server share. One left out falls back to the engine's
 * default or to the model's generation config, which biases the distribution silently.
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

/** The error for a server that serves another policy, where servers are restarted and not reloaded. */
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

/** Begins the label of a server that reads new weights, or was cut off while it did. */
export const LOADING = 'loading-'

/** No such route, or none for this client: the server has not begun what it was asked for. */
const NOT_BEGUN: readonly unknown[] = [401, 403, 404, 405]

const RELOAD_FIXES = {
  vllm: 'start it with VLLM_SERVER_DEV_MODE=1 and the other words that `longhaul policy-server command --publish reload` prints',
  sglang: 'start it with the words that `longhaul policy-server command --kind sglang --publish reload` prints',
} as const

interface ReloadSteps<Held> {
  kind: keyof typeof RELOAD_FIXES
  /** What the server holds before it is touched. */
  look: () => Promise<Held>
  reload: (held: Held) => Promise<void>
  /** Takes back what preceded a reload that the server has not begun: it still has its weights. */
  takeBack: (held: Held) => Promise<unknown>
}

/** @throws LonghaulError `Config.Invalid` where the server cannot reload; it serves what it served before then */
export async function reloadOrLeave<Held>({ kind, look, reload, takeBack }: ReloadSteps<Held>): Promise<void> {
  const explained = (error: unknown): unknown => {
    if (!isLonghaulError(error) || !NOT_BEGUN.includes(error.details['status'])) return error
    const isKey = error.details['status'] === 401 || error.details['status'] === 403
    const fix = isKey ? 'give the trainer worker its key in LONGHAUL_POLICY_API_KEY' : RELOAD_FIXES[kind]
    return new LonghaulError({
      code: 'Config.Invalid',
      message:
        `Expected the ${kind} server to read new weights in place (policyServer.publish: reload), it refuses ` +
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
    // Its failure hides no reason: the next attempt finds the server as a reload that broke off leaves it.
    if (told !== error) await takeBack(held).catch(() => undefined)
    throw told
  }
}
