import { createArtifactActivities } from './artifact-activities.ts'
import { createRecipeReader } from '../activities/runtime/stored-recipe.ts'
import { createSuiteReader, createTaskReader } from '../activities/runtime/stored-tasks.ts'
import { QUEUES } from '../contracts/workflow-ids.ts'
import type { Composed } from './compose-role.ts'
import { connectStore } from './connect-store.ts'
import type { Interposers } from './interposers.ts'
import type { WorkerEnvironment } from './worker-environment.ts'

/** Aggregation in a process of its own, so that it never blocks the loop that serves workflow tasks. */
export async function composeArtifacts(environment: WorkerEnvironment, between: Interposers): Promise<Composed> {
  const store = connectStore(environment, between)
  const activities = createArtifactActivities({
    store,
    recipes: createRecipeReader(store),
    tasks: createTaskReader(store),
    suites: createSuiteReader(store),
  })
  return {
    workers: [{ taskQueue: QUEUES.artifacts, maxConcurrentActivityTaskExecutions: 4, activities }],
    dispose: async () => {},
  }
}
