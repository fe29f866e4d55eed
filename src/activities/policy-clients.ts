import type { PolicyClient } from '../contracts/policy.types.ts'
import type { PolicyServerRecipe } from '../contracts/recipe.types.ts'
import type { RecipeReader } from './stored-recipe.ts'

/** The client of the server that a run's recipe names. */
export type PolicyClients = (run: string) => Promise<PolicyClient>

export interface PolicyServer {
  kind: PolicyServerRecipe['kind']
  url: string
  /** How long a silent server is waited for. */
  patienceMs: number
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
    const { kind, url, patienceS } = (await recipes(run)).policyServer
    const server = { kind, url: url ?? defaultUrl, patienceMs: patienceS * 1000 }
    const key = Object.values(server).join(' ')
    const client = clients.get(key) ?? connect(server)
    clients.set(key, client)
    return client
  }
}
