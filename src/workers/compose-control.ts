import { existsSync } from 'node:fs'
import { isAbsolute, resolve } from 'node:path'
import type { NativeConnection } from '@temporalio/worker'
import { createControlActivities } from './control-activities.ts'
import { createRecipeReader } from '../activities/runtime/stored-recipe.ts'
import { createPlanReader } from '../activities/grading/stored-plan.ts'
import { createSuiteReader, createTaskReader } from '../activities/runtime/stored-tasks.ts'
import { loadPublished, loadTasksAndFile } from '../adapters/datasets/load-tasks.ts'
import { loadRecipe } from '../adapters/recipes/load-recipe.ts'
import { importBasePolicy } from '../adapters/trainer-job/job/policy-directory.ts'
import { QUEUES } from '../contracts/workflow-ids.ts'
import type { Composed } from './compose-role.ts'
import { connectStore } from './connect-store.ts'
import type { Interposers } from './interposers.ts'
import { sandboxPollers } from './sandbox-pollers.ts'
import type { WorkerEnvironment } from './worker-environment.ts'
import { loadWorkflowBundle } from './workflow-bundle.ts'

/** All workflows and their short bookkeeping. */
export async function composeControl(
  environment: WorkerEnvironment,
  connection: NativeConnection,
  between: Interposers,
): Promise<Composed> {
  const store = connectStore(environment, between)
  const places = {
    hubUrl: environment.hubUrl,
    findFile: (path: string) => findBeside(path, environment.recipeDirs) ?? path,
  }
  const activities = createControlActivities({
    store,
    recipes: createRecipeReader(store),
    suites: createSuiteReader(store),
    tasks: createTaskReader(store),
    plans: createPlanReader(store),
    loadRecipe: (input) => loadRecipe({ ...input, dirs: environment.recipeDirs }),
    loadTasks: (source, filters) => loadTasksAndFile(source, filters, places),
    published: {
      identify: async (source, filters) => {
        const { identityOfImport } = await import('../adapters/datasets/published-suite.ts')
        return identityOfImport(source, filters, places)
      },
      load: (source, filters) => loadPublished(source, filters, places),
    },
    pollers: () => sandboxPollers(connection, environment.namespace),
    importBase: ({ base, rope }) =>
      importBasePolicy({ store, directory: findModel(base, environment.recipeDirs), rope }),
  })
  return {
    workers: [
      {
        taskQueue: QUEUES.control,
        workflowBundle: await loadWorkflowBundle(environment.bundle),
        activities,
        maxConcurrentActivityTaskExecutions: 16,
        // Entries, not bytes: an episode holds about 30 KB, so this is far below a small heap.
        maxCachedWorkflows: 1_000,
      },
    ],
    dispose: async () => {},
  }
}

/** A model directory is named relative to its recipe; a recipe that came as text has no place, so each folder is tried. */
function findModel(base: string, recipeDirs: readonly string[]): string {
  return findBeside(base, recipeDirs) ?? resolve(recipeDirs[0] ?? '.', base)
}

/** Null where no folder of recipes has it. */
function findBeside(path: string, recipeDirs: readonly string[]): string | null {
  if (isAbsolute(path)) return path
  return recipeDirs.map((dir) => resolve(dir, path)).find((candidate) => existsSync(candidate)) ?? null
}
