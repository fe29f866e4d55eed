import type { VerdictSuite } from '../../contracts/episodes.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { suiteKeys } from '../../contracts/keys.ts'
import type { ImportedSuite, SuiteOrigin } from '../../contracts/suites.types.ts'
import type { SuiteManifest } from '../../contracts/tasks.types.ts'
import { originOf } from '../../domain/gates/suite-origin.ts'

/**
 * Where a suite's rows come from: as recorded when it was made, else what its manifest and its import still tell. Suites of earlier
 * versions that came from a file of rows have neither hash nor data set.
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

/** The first origin stays: equal suites that came by another way are equal in every row. */
export async function claimSuiteOrigin(store: ArtifactStore, suite: string, origin: SuiteOrigin): Promise<void> {
  await store.claimRecord<SuiteOrigin>(suiteKeys.origin(suite), origin)
}

/** What a verdict says of the suite that its task is of. */
export async function verdictSuite(store: ArtifactStore, suite: string): Promise<VerdictSuite | null> {
  const origin = await readSuiteOrigin(store, suite)
  if (origin === null) return null
  const { dataset, revision, files } = origin
  return { hash: suite, dataset, revision: revision ?? files[0]?.sha256 ?? null }
}
