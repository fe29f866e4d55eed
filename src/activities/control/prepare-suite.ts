import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { suiteKeys } from '../../contracts/keys.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import type { SuiteManifest, SuiteSource, Task } from '../../contracts/tasks.types.ts'
import type { PreparedSuite } from '../../contracts/workflows.types.ts'
import { sha256Hex } from '../hash.ts'
import { suiteName } from './resolve-recipe.ts'

export type TaskLoader = (source: SuiteSource, filters?: Recipe['data']['filters']) => Promise<Task[]>

/**
 * Makes the suite that a recipe names and stores it under its hash: source and row hashes, so that an equal suite of another
 * run finds the same tasks, images and gates. The held-out suite holds only as many tasks as the recipe evaluates.
 */
export async function prepareSuite(
  deps: { store: ArtifactStore; loadTasks: TaskLoader; recipe: Recipe },
  which: 'train' | 'heldOut',
): Promise<PreparedSuite> {
  const { recipe, store } = deps
  const source = recipe.data[which]
  // Curation is for training: an evaluation is of the whole published set.
  const loaded = await deps.loadTasks(source, which === 'train' ? recipe.data.filters : undefined)
  const tasks = which === 'heldOut' && recipe.evaluate.tasks !== null ? loaded.slice(0, recipe.evaluate.tasks) : loaded
  const hash = sha256Hex(JSON.stringify([source, tasks.map(({ taskId, rowHash }) => [taskId, rowHash])]))
  const name = suiteName(recipe, which)
  const manifest: SuiteManifest = { hash, name, source, taskIds: tasks.map(({ taskId }) => taskId) }
  const prepared = { suite: hash, name, tasks: tasks.length }
  if ((await store.readRecord<SuiteManifest>(suiteKeys.manifest(hash))) !== null) return prepared

  // The manifest comes last: a suite that has one is whole.
  for (const task of tasks) await store.putRecord(suiteKeys.task(hash, task.taskId), task)
  await store.claimRecord(suiteKeys.manifest(hash), manifest)
  return prepared
}
