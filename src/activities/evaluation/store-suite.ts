import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { suiteKeys } from '../../contracts/keys.ts'
import type { SuiteManifest, SuiteSource, Task } from '../../contracts/tasks.types.ts'
import type { SuiteOrigin } from '../../contracts/suites.types.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { claimSuiteOrigin } from './suite-origin.ts'

/**
 * Stores tasks as a suite under its hash: source and row hashes, so that an equal suite of another run finds the same tasks,
 * images and gates. Where it comes from is written beside it, once.
 */
export async function storeSuite(
  store: ArtifactStore,
  { name, source, tasks, origin }: { name: string; source: SuiteSource; tasks: readonly Task[]; origin: SuiteOrigin },
): Promise<SuiteManifest> {
  const hash = sha256Hex(JSON.stringify([source, tasks.map(({ taskId, rowHash }) => [taskId, rowHash])]))
  await claimSuiteOrigin(store, hash, origin)
  const stored = await store.readRecord<SuiteManifest>(suiteKeys.manifest(hash))
  if (stored !== null) return stored
  // The manifest comes last: a suite that has one is whole.
  for (const task of tasks) await store.putRecord(suiteKeys.task(hash, task.taskId), task)
  const manifest: SuiteManifest = { hash, name, source, taskIds: tasks.map(({ taskId }) => taskId) }
  return (await store.claimRecord<SuiteManifest>(suiteKeys.manifest(hash), manifest)).record
}
