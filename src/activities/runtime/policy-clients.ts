import { LonghaulError } from '../../contracts/errors.ts'
import { poolOf } from '../../adapters/policy-server/pool.ts'
import type { ChatClient, EnginesRecord, PolicyClient, PolicyPool } from '../../contracts/policy.types.ts'
import type { ChatRecipe, PolicyServerRecipe } from '../../contracts/recipe.types.ts'
import { runKeys } from '../../contracts/keys.ts'
import { isLoopback } from '../../adapters/policy-server/start-command.ts'
import { cachedRequired, type RecipeReader, RUN_RECORDS_FRESH_MS } from './stored-records.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'

/** Presents the servers that a run's recipe names as one. */
export type PolicyClients = (run: string) => Promise<PolicyPool>

export interface PolicyServer {
  kind: PolicyServerRecipe['kind']
  url: string
  publish: 'restart' | 'reload'
  /** Other servers serve the same policies, so a session does not wait long for this one. */
  isOneOfSeveral: boolean
  /** How long to wait for a silent server. */
  unavailableTimeoutMs: number
}

export interface PolicyClientsInput {
  recipes: RecipeReader
  /** Has the addresses of engines that Longhaul launched. */
  store: Pick<ArtifactStore, 'readRecord'>
  /** Used if a recipe gives no address. */
  defaultUrl: string
  connect(server: PolicyServer): PolicyClient
}

/** Creates one client per server, shared by the runs that use it. */
export function createPolicyClients({ recipes, store, defaultUrl, connect }: PolicyClientsInput): PolicyClients {
  const clients = new Map<string, PolicyClient>()
  const pools = new Map<string, PolicyPool>()
  const engines = cachedRequired<string, EnginesRecord>(store, {
    key: runKeys.engines,
    max: 64,
    freshMs: RUN_RECORDS_FRESH_MS,
  })
  return async (run) => {
    const { policyServer } = await recipes(run)
    const { kind, url, replicas, patienceS } = policyServer
    // Recipes stored by an older version know no replicas and launch nothing.
    const isLaunched = (policyServer.launch ?? null) !== null
    const urls = isLaunched ? (await engines(run)).urls : [url ?? defaultUrl, ...(replicas ?? [])]
    const shared = {
      kind,
      publish: howPublished(policyServer),
      isOneOfSeveral: urls.length > 1,
      unavailableTimeoutMs: patienceS * 1000,
    }
    const key = JSON.stringify([shared, urls])
    const known = pools.get(key)
    // A pool remembers which of its servers was silent, so it is reused.
    if (known !== undefined) return known
    const pool = poolOf(
      urls.map((one) => {
        const clientKey = JSON.stringify([shared, one])
        const client = clients.get(clientKey) ?? connect({ ...shared, url: one })
        clients.set(clientKey, client)
        return { url: one, client }
      }),
      { unavailableTimeoutMs: Math.min(LONGEST_ATTEMPT_MS, shared.unavailableTimeoutMs) },
    )
    pools.set(key, pool)
    return pool
  }
}

/** Longer waits consist of several activity attempts, so that the Temporal UI shows what is awaited. */
export const LONGEST_ATTEMPT_MS = 5 * 60_000

/** How the servers of a recipe receive new weights. */
export function howPublished({ kind, publish, launch }: PolicyServerRecipe): 'restart' | 'reload' {
  if (publish === 'reload' || publish === 'restart') return publish
  if (publish === 'manual' || (launch ?? null) === null) return 'restart'
  // vLLM requires no key at the routes that change its weights.
  return kind === 'vllm' && !isLoopback(launch?.host ?? '') ? 'restart' : 'reload'
}

/** The chat endpoint that a run's recipe names. */
export type ChatClients = (run: string) => Promise<ChatClient>

export interface ChatEndpoint {
  url: string
  model: string
  unavailableTimeoutMs: number
  settings: ChatRecipe
}

/** Creates one client per endpoint, shared by the runs that use it. */
export function createChatClients({
  recipes,
  connect,
}: {
  recipes: RecipeReader
  connect(endpoint: ChatEndpoint): ChatClient
}): ChatClients {
  const clients = new Map<string, ChatClient>()
  return async (run) => {
    const { policyServer, model } = await recipes(run)
    const { url, patienceS, chat } = policyServer
    if (url === null || chat === null) {
      throw new LonghaulError({
        code: 'Config.Invalid',
        message: 'The recipe names no chat endpoint',
        details: { run },
      })
    }
    const endpoint = { url, model: model.base, unavailableTimeoutMs: patienceS * 1000, settings: chat }
    const key = JSON.stringify(endpoint)
    const client = clients.get(key) ?? connect(endpoint)
    clients.set(key, client)
    return client
  }
}
