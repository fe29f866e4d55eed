import {
  type ChatClients,
  createChatClients,
  createPolicyClients,
  LONGEST_ATTEMPT_MS,
  type PolicyClients,
} from '../activities/runtime/policy-clients.ts'
import type { RecipeReader } from '../activities/runtime/stored-records.ts'
import { reportTransientError } from '../activities/runtime/wait-board.ts'
import { watchChat, watchPolicy, watchStore } from '../activities/runtime/watch.ts'
import { createChatClient } from '../adapters/chat-endpoint/chat-client.ts'
import { connectToServer } from '../adapters/policy-server/server-connection.ts'
import { sleepUntilLoad } from '../adapters/policy-server/vllm-dialect.ts'
import { createPolicyClient, type PolicyClientOptions } from '../adapters/policy-server/client.ts'
import { LonghaulError } from '../contracts/errors.ts'
import { unknownNamespace } from '../platform/temporal-reach.ts'
import type { TemporalSettings } from '../platform/temporal-settings.ts'
import type { NativeConnection } from '@temporalio/worker'
import type { WorkerEnvironment } from './worker-environment.ts'
import { namespaceIdOf } from './workflow-owners.ts'
import { openArtifactStore } from '../adapters/artifacts/open-store.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import type { PolicyClient } from '../contracts/policy.types.ts'
import type { SandboxHost } from '../contracts/sandbox.types.ts'

/** With several servers, the next one is tried after this time. */
const MOVE_ON_MS = 10_000

/** Creates policy clients. The key stays in this process and is in no recipe, record or history. */
export function policyClientsOf(
  { policyUrl, policyApiKey }: Pick<WorkerEnvironment, 'policyUrl' | 'policyApiKey'>,
  { recipes, store }: { recipes: RecipeReader; store: Pick<ArtifactStore, 'readRecord'> },
  interpose: Interposers['policy'],
): PolicyClients {
  const apiKey = policyApiKey === null ? {} : { apiKey: policyApiKey }
  return createPolicyClients({
    recipes,
    store,
    defaultUrl: policyUrl,
    connect: ({ kind, url, publish, isOneOfSeveral, unavailableTimeoutMs }) => {
      const attemptMs = Math.min(LONGEST_ATTEMPT_MS, unavailableTimeoutMs)
      const timeouts = { giveUpAfterMs: isOneOfSeveral ? Math.min(MOVE_ON_MS, attemptMs) : attemptMs }
      const client = createPolicyClient({
        kind,
        url,
        publish,
        timeouts,
        onTransientError: reportTransientError,
        ...apiKey,
      })
      return watchPolicy({ client: interpose(client), url, servedWithinMs: attemptMs })
    },
  })
}

/** Connects to one server outside a worker, for `longhaul policy-server check`. */
export function connectToOneServer(
  server: Pick<PolicyClientOptions, 'kind' | 'url' | 'publish' | 'timeouts'>,
  env: NodeJS.ProcessEnv = process.env,
): PolicyClient {
  const apiKey = env['LONGHAUL_POLICY_API_KEY'] ?? ''
  return createPolicyClient({ ...server, ...(apiKey === '' ? {} : { apiKey }) })
}

/** An engine that takes longer to fall asleep is stopped, which frees its memory too. */
const SLEEP_TIMEOUTS = { requestMs: 120_000, giveUpAfterMs: 10_000 }

/** vLLM requires no key at the routes of its development mode. @throws LonghaulError if the engine does not fall asleep */
export async function putToSleep({ url, signal }: { url: string; signal: AbortSignal }): Promise<void> {
  const connection = connectToServer({ url, timeouts: SLEEP_TIMEOUTS })
  await sleepUntilLoad((exchange) => connection({ ...exchange, signal }))
}

/** Creates clients of chat endpoints. Each endpoint has its own key, in the variable that the recipe names. */
export function chatClientsOf(recipes: RecipeReader, env: NodeJS.ProcessEnv = process.env): ChatClients {
  return createChatClients({
    recipes,
    connect: ({ url, model, unavailableTimeoutMs, settings }) => {
      const apiKey = readKey(settings.apiKeyVariable, env)
      const giveUpAfterMs = Math.min(LONGEST_ATTEMPT_MS, unavailableTimeoutMs)
      const client = createChatClient({
        url,
        model,
        settings,
        giveUpAfterMs,
        onTransientError: reportTransientError,
        ...apiKey,
      })
      return watchChat({ client, url, model })
    },
  })
}

function readKey(name: string | null, env: NodeJS.ProcessEnv): { apiKey?: string } {
  if (name === null) return {}
  const apiKey = env[name]
  if (apiKey !== undefined && apiKey !== '') return { apiKey }
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected the key of the chat endpoint in ${name}, as policyServer.chat.apiKeyVariable says, but the worker has no such variable: export it before longhaul up, or in the service of the sandbox and trainer workers`,
  })
}

/**
 * Connects to the artifact store of this worker. Activities report waits for it in their heartbeats.
 * @throws LonghaulError `Config.Invalid` for a bucket that cannot give the guarantees of a store
 */
export async function connectStore(
  { artifacts, weights, storePatienceMs }: WorkerEnvironment,
  between: Interposers,
): Promise<ArtifactStore> {
  const store = await openArtifactStore({
    location: artifacts,
    check: true,
    onTransientError: reportTransientError,
    weights,
  })
  return watchStore({ store: between.store(store), name: artifacts, patienceMs: storePatienceMs })
}

/** Wrappers between a worker's activities and the outside world. In production they pass everything through. */
export interface Interposers {
  store(store: ArtifactStore): ArtifactStore
  sandbox(host: SandboxHost): SandboxHost
  policy(client: PolicyClient): PolicyClient
}

export const PASS_THROUGH: Interposers = {
  store: (store) => store,
  sandbox: (host) => host,
  policy: (client) => client,
}

/** Resources that a host keeps for the workflows of a namespace carry the namespace's identity: containers as a label, engines as
 *  their folder. */
export async function requireNamespaceId(connection: NativeConnection, temporal: TemporalSettings): Promise<string> {
  const id = await namespaceIdOf(connection, temporal.namespace)
  if (id !== null) return id
  throw unknownNamespace(temporal)
}
