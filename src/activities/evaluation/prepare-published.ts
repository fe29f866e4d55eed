import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { suiteKeys } from '../../contracts/keys.ts'
import type { DataRecipe } from '../../contracts/recipe.types.ts'
import type { MadeSuite, PinnedSplit } from '../../contracts/suites.types.ts'
import type { SuiteManifest } from '../../contracts/tasks.types.ts'
import type { PublishedSource, PublishedSuite } from '../../adapters/datasets/published-suite.ts'
import { originOf } from '../../domain/gates/suite-origin.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { claimSuiteOrigin } from './suite-origin.ts'

/** Reads published data sets. Both functions may reject with what the user has to change. */
export interface PublishedLoader {
  /** Null if the identity is only known after reading. */
  identify(source: PublishedSource, filters: DataRecipe['filters'] | undefined): Promise<string | null>
  load(source: PublishedSource, filters: DataRecipe['filters'] | undefined): Promise<PublishedSuite>
  /** Returns the newest monthly split of a data set, at a given commit or at the newest one. */
  newestSplit(source: { dataset: string; revision: string | null }): Promise<PinnedSplit>
}

interface PreparePublishedInput {
  source: PublishedSource
  name: string
  filters: DataRecipe['filters'] | undefined
  /** Number of leading tasks to take; null means all. */
  take: number | null
}

/**
 * Imports a published data set into the store: tasks, rows as published, and the record of their origin and of each filter's result.
 * The run then needs only the store, and another run of the same import does not contact the hub.
 */
export async function preparePublished(
  { store, published }: { store: ArtifactStore; published: PublishedLoader },
  { source, name, filters, take }: PreparePublishedInput,
): Promise<SuiteManifest> {
  const identity = await published.identify(source, filters)
  const madeBy = identity === null ? null : suiteKeys.madeBy(sha256Hex(JSON.stringify([identity, take])))
  const made = madeBy === null ? null : await store.readRecord<MadeSuite>(madeBy)
  const known = made === null ? null : await store.readRecord<SuiteManifest>(suiteKeys.manifest(made.suite))
  if (known !== null) return known

  const { record, rows } = await published.load(source, filters)
  const taken = rows.slice(0, take ?? rows.length)
  const identities = taken.map(({ task }) => [task.taskId, task.rowHash])
  const hash = sha256Hex(JSON.stringify([source, record.hash, identities]))
  for (const { task, row } of taken) {
    await store.putRecord(suiteKeys.task(hash, task.taskId), task)
    await store.putRecord(suiteKeys.row(hash, task.taskId), { schema: 'longhaul.row/1', row })
  }
  await store.putRecord(suiteKeys.imported(hash), record)
  await claimSuiteOrigin(store, hash, originOf({ source, imported: record, file: null, curation: undefined }))
  // The manifest is written last, so a suite with a manifest is complete.
  const manifest: SuiteManifest = { hash, name, source, taskIds: taken.map(({ task }) => task.taskId) }
  const { record: kept } = await store.claimRecord(suiteKeys.manifest(hash), manifest)
  if (madeBy !== null) await store.claimRecord<MadeSuite>(madeBy, { schema: 'longhaul.made-suite/1', suite: hash })
  return kept
}
