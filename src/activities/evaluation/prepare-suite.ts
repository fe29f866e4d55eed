import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { DataRecipe, Recipe } from '../../contracts/recipe.types.ts'
import { firstIteration, purposeOf } from '../../contracts/episode-purpose.ts'
import type { EpisodePurpose } from '../../contracts/episodes.types.ts'
import { gateKeys, runKeys, suiteKeys } from '../../contracts/keys.ts'
import type { IterationPlan } from '../../contracts/run-records.types.ts'
import type { MadeSuite, OverlapRecord, PinnedSplit, RowsFile } from '../../contracts/suites.types.ts'
import { NEWEST_SPLIT, type SuiteManifest, type SuiteSource, type Task } from '../../contracts/tasks.types.ts'
import type { PublishedSource, PublishedSuite } from '../../adapters/datasets/published-suite.ts'
import type { PreparedSuite } from '../../contracts/workflows.types.ts'
import { originOf } from '../../domain/gates/suite-origin.ts'
import { claimSuiteOrigin, storeSuite } from './suite-origin.ts'
import { suiteName } from '../run/resolve-recipe.ts'
import { sha256Hex } from '../../platform/hash.ts'

export interface LoadedTasks {
  tasks: Task[]
  /** The file that was read, if the source is a file of rows. */
  file: RowsFile | null
  /** The pinned source, if it was the newest split. */
  source?: SuiteSource
}

type UnpinnedSource = Extract<SuiteSource, { kind: 'hub' | 'file' }>

export type TaskLoader = (source: SuiteSource, filters?: Recipe['data']['filters']) => Promise<LoadedTasks>

/**
 * Creates the suite that a recipe names and stores it under the hash of its source and rows, so that an equal suite of another run
 * finds the same tasks, images and gates. The held-out suite contains only as many tasks as the recipe evaluates. A run that has begun
 * to play a suite keeps it, whatever becomes of its source.
 */
export async function prepareSuite(
  deps: { store: ArtifactStore; loadTasks: TaskLoader; published?: PublishedLoader; recipe: Recipe; run?: string },
  which: string,
): Promise<PreparedSuite> {
  const { recipe, store } = deps
  const source = sourceOf(recipe, which)
  // Curation applies to training only; an evaluation uses the whole published set.
  const filters = which === 'train' ? recipe.data.filters : undefined
  const begun = deps.run === undefined ? null : await begunSuite(store, { run: deps.run, which })
  if (deps.published !== undefined && (source.kind === 'hub' || source.kind === 'file')) {
    const pinned = await pinSource({ store, published: deps.published, run: deps.run }, source, which)
    const input = {
      source: pinned,
      name: suiteName(recipe, which),
      filters,
      take: which === 'heldOut' ? recipe.evaluate.tasks : null,
    }
    const made = begun ?? (await preparePublished({ store, published: deps.published }, input))
    if (which === 'heldOut') requireQuick(recipe, made.taskIds)
    return {
      suite: made.hash,
      name: input.name,
      tasks: made.taskIds.length,
      ...(source.kind === 'hub' && source.split === NEWEST_SPLIT && pinned.kind === 'hub'
        ? { split: `${pinned.dataset}/${pinned.split}` }
        : {}),
    }
  }
  if (begun !== null) return { suite: begun.hash, name: suiteName(recipe, which), tasks: begun.taskIds.length }
  const { tasks: loaded, file } = await deps.loadTasks(source, filters)
  const tasks = which === 'heldOut' && recipe.evaluate.tasks !== null ? loaded.slice(0, recipe.evaluate.tasks) : loaded
  if (which === 'heldOut')
    requireQuick(
      recipe,
      tasks.map(({ taskId }) => taskId),
    )
  // Stored under the name that its first recipe gave it; each run uses its own name.
  const { hash } = await storeSuite(store, {
    name: suiteName(recipe, which),
    source,
    tasks,
    origin: originOf({ source, imported: null, file, curation: filters }),
  })
  return { suite: hash, name: suiteName(recipe, which), tasks: tasks.length }
}

/**
 * The suite that a run plays, once it has passed its gate. Each evaluation of a run asks for its suite again, and so does a run that is
 * started again, days later or on another machine: its file may have been changed or moved by then.
 * @param which `train`, `heldOut`, or one of `evaluate.suites`
 */
async function begunSuite(
  store: ArtifactStore,
  { run, which }: { run: string; which: string },
): Promise<SuiteManifest | null> {
  const hash = (await plannedSuite(store, { run, which })) ?? (await comparedSuite(store, { run, which }))
  // Whose tasks were refused may change their file and start the run again.
  if (hash === null || (await store.readRecord(gateKeys.gated(run, hash))) === null) return null
  return store.readRecord<SuiteManifest>(suiteKeys.manifest(hash))
}

async function plannedSuite(
  store: ArtifactStore,
  { run, which }: { run: string; which: string },
): Promise<string | null> {
  for (const stage of await store.folders(runKeys.folder(run))) {
    const purpose = purposeOf(stage)
    if (!playsOn(purpose, which)) continue
    const plan = await store.readRecord<IterationPlan>(runKeys.plan(run, stage, firstIteration(purpose)))
    if (plan !== null) return plan.suite
  }
  return null
}

function playsOn(purpose: EpisodePurpose, which: string): boolean {
  if (purpose.kind !== 'evaluation') return which === 'train'
  return which === (purpose.suite ?? 'heldOut')
}

/** Of a training run that has planned nothing yet. */
async function comparedSuite(
  store: ArtifactStore,
  { run, which }: { run: string; which: string },
): Promise<string | null> {
  const compared = await store.readRecord<OverlapRecord>(runKeys.overlap(run))
  if (which === 'train') return compared?.train ?? null
  return which === 'heldOut' ? (compared?.evaluated[0] ?? null) : null
}

/**
 * Resolves `split: newest` once per suite of a run and records the result, so that a repeated attempt, and a run that continues after a
 * new month was published, use the split that the run began with.
 */
async function pinSource(
  { store, published, run }: { store: ArtifactStore; published: PublishedLoader; run: string | undefined },
  source: UnpinnedSource,
  which: string,
): Promise<PublishedSource> {
  if (source.kind === 'file') return source
  const { revision } = source
  if (source.split !== NEWEST_SPLIT && revision !== null) return { ...source, revision }
  if (source.split !== NEWEST_SPLIT) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected the revision of ${source.dataset} beside split ${source.split}: only split: newest finds its own`,
    })
  }
  const pin = await readPin({ store, published, run }, { dataset: source.dataset, revision }, which)
  return { ...source, revision: pin.revision, split: pin.split }
}

async function readPin(
  { store, published, run }: { store: ArtifactStore; published: PublishedLoader; run: string | undefined },
  source: { dataset: string; revision: string | null },
  which: string,
): Promise<PinnedSplit> {
  if (run === undefined) return published.newestSplit(source)
  const key = runKeys.pinnedSplit(run, which)
  const stored = await store.readRecord<PinnedSplit>(key)
  if (stored !== null) return stored
  // The first answer counts, because another attempt may have seen a newer month meanwhile.
  return (await store.claimRecord<PinnedSplit>(key, await published.newestSplit(source))).record
}

function sourceOf({ data, evaluate }: Recipe, which: string): SuiteSource {
  if (which === 'train' || which === 'heldOut') return data[which]
  const source = evaluate.suites[which]
  if (source !== undefined) return source
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: 'Expected train, heldOut or one of evaluate.suites',
    details: { suite: which },
  })
}

/** Checked at the start, because a mistyped id would silently shorten every curve. */
function requireQuick({ evaluate }: Recipe, taskIds: readonly string[]): void {
  const known = new Set(taskIds)
  const [missing, ...more] = (evaluate.quick ?? []).filter((taskId) => !known.has(taskId))
  if (missing === undefined) return
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected evaluate.quick to name only the ${known.size} held-out tasks, got also ${missing}${more.length === 0 ? '' : ` and ${more.length} more`}`,
  })
}

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
async function preparePublished(
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
