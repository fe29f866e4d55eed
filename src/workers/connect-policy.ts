import { createPolicyClients, type PolicyClients } from '../activities/policy-clients.ts'
import type { RecipeReader } from '../activities/stored-recipe.ts'
import { noteTrouble } from '../activities/waits/wait-board.ts'
import { watchPolicy } from '../activities/waits/watch-policy.ts'
import { createPolicyClient } from '../adapters/policy-server/client.ts'
import type { Interposers } from './interposers.ts'
import type { WorkerEnvironment } from './worker-environment.ts'

/** Longer waits are made of several attempts of an activity, so that the Temporal UI shows what is waited for. */
const MOST_PATIENT_ATTEMPT_MS = 5 * 60_000

/** The key stays in this process: it is in no recipe, record or history. */
export function policyClientsOf(
  { policyUrl, policyApiKey }: WorkerEnvironment,
  recipes: RecipeReader,
  interpose: Interposers['policy'],
): PolicyClients {
  const apiKey = policyApiKey === null ? {} : { apiKey: policyApiKey }
  return createPolicyClients({
    recipes,
    defaultUrl: policyUrl,
    connect: ({ kind, url, patienceMs }) => {
      const timeouts = { giveUpAfterMs: Math.min(MOST_PATIENT_ATTEMPT_MS, patienceMs) }
      const client = createPolicyClient({ kind, url, timeouts, onTrouble: noteTrouble, ...apiKey })
      return watchPolicy({ client: interpose(client), url })
    },
  })
}
