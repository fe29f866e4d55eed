import { LonghaulError } from '../../contracts/errors.ts'
import type { PolicyClient, PolicyVersion } from '../../contracts/policy.types.ts'
import type { PolicyServerRecipe } from '../../contracts/recipe.types.ts'
import {
  type Dialect,
  type Exchange,
  SMALL_ANSWER_BYTES,
  type Send,
  type Witnessed,
  answeredByAnother,
  isUnlabelled,
} from './dialect.ts'
import { embeddedDialect } from './completions-dialect.ts'
import { connectToServer, type PolicyServerTimeouts } from './server-connection.ts'
import { sglangDialect } from './sglang-dialect.ts'
import { vllmDialect } from './vllm-dialect.ts'

export interface PolicyClientOptions {
  kind: PolicyServerRecipe['kind']
  url: string
  /** How a vLLM or SGLang server receives new weights. @default restart */
  publish?: PolicyServerRecipe['publish']
  timeouts?: PolicyServerTimeouts
  /** Sent as a bearer token. The caller reads it from the environment, never from a recipe. */
  apiKey?: string
  /** Called after each failed attempt that will be retried, so that the wait is visible. */
  onTransientError?: (error: LonghaulError) => void
}

/**
 * Creates token-in/token-out access to one server. It retries with jittered back-off; see `ServerConnectionOptions` for the limits.
 * @throws LonghaulError `Config.Invalid` for a kind that cannot return token ids
 */
export function createPolicyClient({ kind, publish = null, ...options }: PolicyClientOptions): PolicyClient {
  const dialect = dialectOf(kind, publish === 'reload')
  const connection = connectToServer({ ...options, sendsTrace: true })
  const sendWith =
    (signal: AbortSignal): Send =>
    (exchange) =>
      connection({ maxAnswerBytes: SMALL_ANSWER_BYTES, ...exchange, signal })
  const prove = proveWeights(dialect)

  return {
    async served(signal) {
      const send = sendWith(signal)
      return dialect.held === undefined ? send(dialect.served()) : [await dialect.held(send)]
    },
    sample: (request, signal) =>
      prove({
        policy: request.policy,
        build: (proof) => timed(dialect.sample(request, proof)),
        send: sendWith(signal),
      }),
    tokenize: (request, signal) => sendWith(signal)(dialect.tokenize(request)),
    score: (request, signal) =>
      prove({ policy: request.policy, build: (proof) => dialect.score(request, proof), send: sendWith(signal) }),
    load: (ask, signal) => dialect.load(ask, sendWith(signal)),
    async release(request) {
      if (dialect.release !== undefined) await sendWith(AbortSignal.timeout(RELEASE_MS))(dialect.release(request))
    },
  }
}

/** The exchange's result says how long the server took for it. */
function timed<T extends object>(exchange: Exchange<T>): Exchange<T & { tookMs?: number }> {
  const parse = (answer: unknown, tookMs?: number): T & { tookMs?: number } => ({
    ...exchange.parse(answer),
    ...(tookMs === undefined ? {} : { tookMs }),
  })
  return { ...exchange, parse }
}

/** A lease that is not released expires on its own, so a run that ends waits only a few tries for a restarting server. */
const RELEASE_MS = 10_000

interface ProveInput<T> {
  policy: PolicyVersion
  build: (proof?: Witnessed) => Exchange<T>
  send: Send
}

/**
 * Sends an exchange that the requested weights must answer. Once a server's answer has not named its weights, the server is asked which
 * weights it holds before and after each answer, and that first answer is requested again.
 */
function proveWeights(dialect: Dialect): <T>(input: ProveInput<T>) => Promise<T> {
  let isSilent = false
  return async ({ policy, build, send }) => {
    const { held } = dialect
    if (held === undefined) return send(build())
    if (!isSilent) {
      try {
        return await send(build())
      } catch (error) {
        if (!isUnlabelled(error)) throw error
        isSilent = true
      }
    }
    const requireHeld = async (): Promise<void> => {
      const version = await held(send)
      if (version !== policy) throw answeredByAnother(policy, version)
    }
    await requireHeld()
    const answer = await send(build('witnessed'))
    await requireHeld()
    return answer
  }
}

function dialectOf(kind: PolicyServerRecipe['kind'], reload: boolean): Dialect {
  if (kind === 'embedded') return embeddedDialect
  if (kind === 'vllm') return vllmDialect({ reload })
  if (kind === 'sglang') return sglangDialect({ reload })
  throw new LonghaulError({
    code: 'Config.Invalid',
    message:
      'Expected policyServer.kind to be embedded, vllm or sglang where tokens are sampled: a chat endpoint returns text, its ' +
      'tokens can be neither proven nor trained on',
    details: { kind },
  })
}
