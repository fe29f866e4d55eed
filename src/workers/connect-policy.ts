import { createPolicyClients, type PolicyClients } from '../activities/policy-clients.ts'
import type { RecipeReader } from '../activities/stored-recipe.ts'
import { createPolicyClient } from '../adapters/policy-server/client.ts'
import type { WorkerEnvironment } from './worker-environment.ts'

/** The key stays in this process: it is in no recipe, record or history. */
export function policyClientsOf({ policyUrl, policyApiKey }: WorkerEnvironment, recipes: RecipeReader): PolicyClients {
  const apiKey = policyApiKey === null ? {} : { apiKey: policyApiKey }
  return createPolicyClients({
    recipes,
    defaultUrl: policyUrl,
    connect: (server) => createPolicyClient({ ...server, ...apiKey }),
  })
}
