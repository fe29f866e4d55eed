import type { VerdictSuite } from '../../contracts/episodes.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { suiteKeys } from '../../contracts/keys.ts'
import type { ImportedSuite, SuiteOrigin } from '../../contracts/suites.types.ts'
import type { SuiteManifest, SuiteSource, Task } from '../../contracts/tasks.types.ts'
import { originOf } from '../../domain/gates/suite-origin.ts'
import { sha256Hex } from '../../platform/hash.ts'

/**
 * Returns the origin of a suite's rows: as recorded when the suite was made, otherwise as its manifest and its import tell. Suites of
 * earlier versions from a file of rows have neither hash nor data set.
 * @returns null for a suite that is not stored
 */
export async function readSuiteOrigin(store: ArtifactStore, suite: string): Promise<SuiteOrigin | null> {
  const stored = await store.readRecord<SuiteOrigin>(suiteKeys.origin(suite))
  if (stored !== null) return stored
  const manifest = await store.readRecord<SuiteManifest>(suiteKeys.manifest(suite))
  if (manifest === null) return null
  const imported = await store.readRecord<ImportedSuite>(suiteKeys.imported(suite))
  return originOf({ source: manifest.source, imported, file: null, curation: undefined })
}

/** The first origin counts, because equal suites from another source are equal in every row. */
export async function claimSuiteOrigin(store: ArtifactStore, suite: string, origin: SuiteOrigin): Promise<void> {
  await store.claimRecord<SuiteOrigin>(suiteKeys.origin(suite), origin)
}

/** The part of a verdict that describes its task's suite. */
export async function verdictSuite(store: ArtifactStore, suite: string): Promise<VerdictSuite | null> {
  const origin = await readSuiteOrigin(store, suite)
  if (origin === null) return null
  const { dataset, revision, files } = origin
  return { hash: suite, dataset, revision: revision ?? files[0]?.sha256 ?? null }
}

/**
 * Stores tasks as a suite under the hash of source and rows, so that an equal suite of another run finds the same tasks, images and
 * gates. Its origin is written beside it, once.
 */
export async function storeSuite(
  store: ArtifactStore,
  { name, source, tasks, origin }: { name: string; source: SuiteSource; tasks: readonly Task[]; origin: SuiteOrigin },
): Promise<SuiteManifest> {
  const hash = sha256Hex(JSON.stringify([source, tasks.map(({ taskId, rowHash }) => [taskId, rowHash])]))
  await claimSuiteOrigin(store, hash, origin)
  const stored = await store.readRecord<SuiteManifest>(suiteKeys.manifest(hash))
  if (stored !== null) return stored
  // The manifest is written last, so a suite with a manifest is complete.
  for (const task of tasks) await store.putRecord(suiteKeys.task(hash, task.taskId), task)
  const manifest: SuiteManifest = { hash, name, source, taskIds: tasks.map(({ taskId }) => taskId) }
  return (await store.claimRecord<SuiteManifest>(suiteKeys.manifest(hash), manifest)).record
}
