import { fileURLToPath } from 'node:url'
import { createRecipeReader } from '../activities/runtime/stored-records.ts'
import { createTrainerActivities } from '../activities/training/trainer-activities.ts'
import { QUEUES } from '../contracts/workflow-ids.ts'
import type { Composed } from './compose-role.ts'
import { connectStore, chatClientsOf, policyClientsOf, type Interposers } from './connect.ts'
import type { WorkerEnvironment } from './worker-environment.ts'

/** Jobs wait for each other inside the process; further slots keep publishing and releasing from waiting for a job of hours. */
const SLOTS = 4

export async function composeTrainer(environment: WorkerEnvironment, between: Interposers): Promise<Composed> {
  const store = connectStore(environment, between)
  const recipes = createRecipeReader(store)
  const trainerPackage = fileURLToPath(new URL('../../trainer', import.meta.url))
  return {
    workers: [
      {
        taskQueue: QUEUES.trainer,
        maxConcurrentActivityTaskExecutions: SLOTS,
        activities: createTrainerActivities({
          store,
          recipes,
          policies: policyClientsOf(environment, recipes, between.policy),
          chats: chatClientsOf(recipes),
          trainer: { python: environment.python, env: { PYTHONPATH: trainerPackage } },
        }),
      },
    ],
    dispose: async () => {},
  }
}
