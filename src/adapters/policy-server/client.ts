import { LonghaulError } from '../../contracts/errors.ts'
import type { PolicyClient } from '../../contracts/policy.types.ts'
import type { PolicyServerRecipe } from '../../contracts/recipe.types.ts'
import type { Dialect, Send } from './dialect.ts'
import { embeddedDialect } from './embedded-dialect.ts'
import { connectToServer, type PolicyServerTimeouts } from './server-connection.ts'
import { sglangDialect } from './sglang-dialect.ts'
import { vllmDialect } from './vllm-dialect.ts'

export interface PolicyClientOptions {
  kind: PolicyServerRecipe['kind']
  url: string
  /** How new weights come to a vLLM or SGLang server. @default restart */
  publish?: PolicyServerRecipe['publish']
  timeouts?: PolicyServerTimeouts
  /** Sent as a bearer token; read from the environment by the caller, never from a recipe. */
  apiKey?: string
  /** Told of each failed try that is followed by another, so that patience is not silence. */
  onTransientError?: (error: LonghaulError) => void
}

/**
 * Token-in/token-out access to one server. Retries inside with jittered back-off; see `ServerConnectionOptions` for the limits.
 * @throws LonghaulError `Config.Invalid` for a kind that cannot prove tokens
 */
export function createPolicyClient({ kind, publish = null, ...options }: PolicyClientOptions): PolicyClient {
  const dialect = dialectOf(kind, publish === 'reload')
  const connection = connectToServer(options)
  const sendWith =
    (signal: AbortSignal): Send =>
    (exchange) =>
      connection({ ...exchange, signal })

  return {
    served: (signal) => sendWith(signal)(dialect.served()),
    sample: (request, signal) => sendWith(signal)(dialect.sample(request)),
    tokenize: (request, signal) => sendWith(signal)(dialect.tokenize(request)),
    score: (request, signal) => sendWith(signal)(dialect.score(request)),
    load: (ask, signal) => dialect.load(ask, sendWith(signal)),
    async release(request) {
      // Best effort by design of leases, but a server that restarts deserves a few tries.
      if (dialect.release !== undefined) await sendWith(AbortSignal.timeout(60_000))(dialect.release(request))
    },
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
