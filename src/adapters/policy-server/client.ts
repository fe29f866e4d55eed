import { fileURLToPath } from 'node:url'
import { LonghaulError } from '../../contracts/errors.ts'
import type { PolicyClient, SampleRequest } from '../../contracts/policy.types.ts'
import type { PolicyServerRecipe } from '../../contracts/recipe.types.ts'
import { bad, completionBody, isIdList, isObject, readCompletion } from './completion.ts'
import { scoringBody, readPromptLogprobs } from './scoring.ts'
import { connectToServer, type PolicyServerTimeouts } from './server-connection.ts'

export interface PolicyClientOptions {
  kind: PolicyServerRecipe['kind']
  url: string
  timeouts?: PolicyServerTimeouts
  /** Sent as a bearer token; read from the environment by the caller, never from a recipe. */
  apiKey?: string
  /** Told of each failed try that is followed by another, so that patience is not silence. */
  onTrouble?: (error: LonghaulError) => void
}

/** A list, a prompt's ids, a lease: a server that takes longer for these is not well. */
const SMALL_ANSWER_MS = 60_000

/**
 * Token-in/token-out access over vLLM's fields. `embedded` also loads and leases policies. A vLLM server serves what it was
 * started with (`--served-model-name <version>`, `--generation-config vllm`, `--logprobs-mode processed_logprobs`): there
 * `load` only verifies the name, and changing it is the operator's restart.
 * Retries inside with jittered back-off; see `ServerConnectionOptions` for the limits.
 * @throws LonghaulError `Config.Invalid` for a kind that cannot prove tokens
 */
export function createPolicyClient({ kind, ...options }: PolicyClientOptions): PolicyClient {
  checkKind(kind)
  const ask = connectToServer(options)

  const served: PolicyClient['served'] = (signal) =>
    ask({ path: '/v1/models', policy: null, timeoutMs: SMALL_ANSWER_MS, signal, parse: readModels })

  return {
    served,
    sample: (request, signal) =>
      ask({
        path: '/v1/completions',
        body: completionBody(request),
        policy: request.policy,
        headers: affinityHeaders(request),
        signal,
        parse: (answer) => readCompletion({ answer, request }),
      }),
    tokenize: ({ policy, text }, signal) =>
      ask({
        path: '/tokenize',
        // Off by name: for a plain prompt vLLM adds special tokens unless told not to.
        body: { model: policy, prompt: text, add_special_tokens: false },
        policy,
        timeoutMs: SMALL_ANSWER_MS,
        signal,
        parse: readTokens,
      }),
    score: ({ policy, ids }, signal) =>
      ask({
        path: '/v1/completions',
        body: scoringBody({ kind, policy, ids }),
        policy,
        signal,
        parse: (answer) => readPromptLogprobs({ answer, ids }),
      }),
    async load({ policy, holder, leaseMs }, signal) {
      if (kind === 'vllm') return checkServed(await served(signal), policy.version)
      await ask({
        path: '/v1/reload',
        body: {
          path: localPath(policy.uri),
          version: policy.version,
          manifest_sha256: policy.manifestSha256,
          holder,
          lease_s: leaseMs / 1000,
        },
        policy: policy.version,
        signal,
        parse: (answer) => checkLoaded(answer, policy.version),
      })
    },
    async release({ holder }) {
      if (kind === 'vllm') return
      // Best effort by design of leases, but a server that restarts deserves a few tries.
      await ask({
        path: '/v1/release',
        body: { holder },
        policy: null,
        signal: AbortSignal.timeout(60_000),
        parse: () => null,
      })
    },
  }
}

function checkKind(kind: PolicyServerRecipe['kind']): void {
  if (kind === 'embedded' || kind === 'vllm') return
  const why =
    kind === 'chat'
      ? 'a chat endpoint returns text: its tokens can be neither proven nor trained on'
      : 'SGLang has other request fields, which this version does not speak'
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected policyServer.kind to be embedded or vllm where tokens are sampled: ${why}`,
    details: { kind },
  })
}

/** Keeps an episode on the server that holds its prefix: the names that the usual routers read; harmless elsewhere. */
function affinityHeaders({ session }: SampleRequest): Record<string, string> {
  const value = encodeURIComponent(session)
  return { 'x-session-id': value, 'x-smg-routing-key': value }
}

function readModels(answer: unknown): string[] {
  const data = isObject(answer) ? answer['data'] : undefined
  if (!Array.isArray(data)) throw bad('a list of models', { got: typeof data })
  return data.flatMap((model: unknown) => (isObject(model) && typeof model['id'] === 'string' ? [model['id']] : []))
}

function readTokens(answer: unknown): number[] {
  const tokens = isObject(answer) ? answer['tokens'] : undefined
  if (!isIdList(tokens)) throw bad('a list of token ids', { got: typeof tokens })
  return tokens
}

function checkLoaded(answer: unknown, version: string): null {
  const loaded = isObject(answer) ? answer['version'] : undefined
  if (loaded !== version)
    throw bad('the loaded version to be the asked one', { asked: version, loaded: String(loaded) })
  return null
}

function checkServed(models: string[], version: string): void {
  if (models.includes(version)) return
  throw new LonghaulError({
    code: 'Model.NotServed',
    message:
      'Expected the vLLM server to serve the policy. Restart it on the policy’s directory with ' +
      `--served-model-name ${version} --generation-config vllm --logprobs-mode processed_logprobs`,
    details: { served: models.join(' ') },
  })
}

function localPath(uri: string): string {
  if (uri.startsWith('file://')) return fileURLToPath(uri)
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: 'Expected a file:// policy directory: the embedded server loads from its own file system',
    details: { uri },
  })
}
