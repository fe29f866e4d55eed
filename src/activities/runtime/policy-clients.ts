import { LonghaulError } from '../../contracts/errors.ts'
import { poolOf } from '../../adapters/policy-server/pool.ts'
import type { ChatClient, PolicyClient, PolicyPool } from '../../contracts/policy.types.ts'
import type { ChatRecipe, PolicyServerRecipe } from '../../contracts/recipe.types.ts'
import type { RecipeReader } from './stored-records.ts'

/** The servers that a run's recipe names, as one. */
export type PolicyClients = (run: string) => Promise<PolicyPool>

export interface PolicyServer {
  kind: PolicyServerRecipe['kind']
  url: string
  publish: PolicyServerRecipe['publish']
  /** How long a silent server is waited for. */
  unavailableTimeoutMs: number
}

export interface PolicyClientsInput {
  recipes: RecipeReader
  /** Where a recipe gives no address. */
  defaultUrl: string
  connect(server: PolicyServer): PolicyClient
}

/** One client a server, shared by the runs that use it. */
export function createPolicyClients({ recipes, defaultUrl, connect }: PolicyClientsInput): PolicyClients {
  const clients = new Map<string, PolicyClient>()
  return async (run) => {
    const { kind, url, replicas, publish, patienceS } = (await recipes(run)).policyServer
    // Recipes stored by an older version know no replicas.
    const urls = [url ?? defaultUrl, ...(replicas ?? [])]
    return poolOf(
      urls.map((one) => {
        const server = { kind, url: one, publish, unavailableTimeoutMs: patienceS * 1000 }
        const key = Object.values(server).join(' ')
        const client = clients.get(key) ?? connect(server)
        clients.set(key, client)
        return { url: one, client }
      }),
    )
  }
}

/** The chat endpoint that a run's recipe names. */
export type ChatClients = (run: string) => Promise<ChatClient>

export interface ChatEndpoint {
  url: string
  model: string
  unavailableTimeoutMs: number
  settings: ChatRecipe
}

/** One client an endpoint, shared by the runs that use it. */
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
