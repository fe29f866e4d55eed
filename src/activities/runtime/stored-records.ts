import { hostname } from 'node:os'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError, isLonghaulError } from '../../contracts/errors.ts'
import { suiteKeys, runKeys, gateKeys } from '../../contracts/keys.ts'
import type { SuiteManifest, Task } from '../../contracts/tasks.types.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import type { GatedSuite } from '../../contracts/gates.types.ts'
import type { IterationPlan, StoredRecipe } from '../../contracts/run-records.types.ts'

/** Maximum number of cached records of a kind, because a worker lives for weeks and reads the records of every run. */
const KEPT = { tasks: 1_000, suites: 16, recipes: 64, gatedSuites: 16, iterations: 16 } as const

/**
 * Records of a run may be removed, and a new run of the name then has others. They are kept for this long; a name that was just removed
 * begins a run only later, see `untilForgotten`.
 */
export const RUN_RECORDS_FRESH_MS = 30_000

interface CacheOptions<Of> {
  key: (of: Of) => string
  max: number
  /** How long a record is kept. @default for as long as it is used: a record that is never removed */
  freshMs?: number
  /** Monotonic, in ms. @default the process's */
  stopwatch?: () => number
}

/**
 * Caches records that never change once they are stored. Each is read once, concurrent callers share the read, and the `max` most
 * recently used ones are kept. An absent record is read again.
 */
export function cachedRecords<Of, T extends object>(
  store: Pick<ArtifactStore, 'readRecord'>,
  { key, max, freshMs = Number.POSITIVE_INFINITY, stopwatch = () => performance.now() }: CacheOptions<Of>,
): (of: Of) => Promise<T | null> {
  /** By key; the most recently used one is last. */
  const kept = new Map<string, Promise<T | null>>()
  const readAt = new WeakMap<Promise<T | null>, number>()
  const forget = (name: string, read: Promise<T | null>): void => {
    if (kept.get(name) === read) kept.delete(name)
  }
  const begin = (name: string): Promise<T | null> => {
    const read = store.readRecord<T>(name)
    readAt.set(read, stopwatch())
    return read
  }
  return async (of) => {
    const name = key(of)
    const found = kept.get(name)
    const isFresh = found !== undefined && stopwatch() - (readAt.get(found) ?? 0) < freshMs
    const read = isFresh ? found : begin(name)
    kept.delete(name)
    kept.set(name, read)
    const [oldest] = kept.keys()
    if (kept.size > max && oldest !== undefined) kept.delete(oldest)
    try {
      const record = await read
      if (record === null) forget(name, read)
      return record
    } catch (error) {
      forget(name, read)
      throw error
    }
  }
}

/** The same for required records. @throws LonghaulError `Artifact.Missing` */
export function cachedRequired<Of, T extends object>(
  store: Pick<ArtifactStore, 'readRecord'>,
  options: CacheOptions<Of>,
): (of: Of) => Promise<T> {
  const read = cachedRecords<Of, T>(store, options)
  return async (of) => present(await read(of), options.key(of))
}

export async function readOrThrow<T extends object>(store: ArtifactStore, key: string): Promise<T> {
  return present(await store.readRecord<T>(key), key)
}

function present<T extends object>(record: T | null, key: string): T {
  if (record !== null) return record
  throw new LonghaulError({ code: 'Artifact.Missing', message: 'Expected a stored record', details: { key } })
}

export type TaskReader = (input: { suite: string; taskId: string }) => Promise<Task>

export function createTaskReader(store: ArtifactStore): TaskReader {
  return cachedRequired(store, { key: ({ suite, taskId }) => suiteKeys.task(suite, taskId), max: KEPT.tasks })
}

export type SuiteReader = (suite: string) => Promise<SuiteManifest>

export function createSuiteReader(store: ArtifactStore): SuiteReader {
  return cachedRequired(store, { key: (suite) => suiteKeys.manifest(suite), max: KEPT.suites })
}

export type RecipeReader = (run: string) => Promise<Recipe>

/**
 * A run without a recipe in this store has its records in another one: the worker was started with other settings. Each episode that it
 * takes would be lost and replaced, so the run must fail instead.
 * @returns a reader that throws LonghaulError `Config.Invalid` for such a run
 */
export function createRecipeReader(store: ArtifactStore): RecipeReader {
  const read = cachedRecords<string, StoredRecipe>(store, {
    key: (run) => runKeys.recipe(run),
    max: KEPT.recipes,
    freshMs: RUN_RECORDS_FRESH_MS,
  })
  return async (run) => {
    const stored = await read(run)
    if (stored !== null) return stored.recipe
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Run ${run} has no recipe in the artifact store at ${store.locate('runs')}. Every worker and command of a run needs the store with which the run was started (LONGHAUL_ARTIFACTS)`,
      details: { run, machine: hostname() },
    })
  }
}

export type IterationReader = (of: Pick<IterationPlan, 'run' | 'stage' | 'iteration'>) => Promise<IterationPlan | null>

/** A plan names each task of its iteration, and each of their episodes asks for it. */
export function createIterationReader(store: Pick<ArtifactStore, 'readRecord'>): IterationReader {
  return cachedRecords(store, {
    key: ({ run, stage, iteration }) => runKeys.plan(run, stage, iteration),
    max: KEPT.iterations,
    freshMs: RUN_RECORDS_FRESH_MS,
  })
}

/** Cached per store, because every episode reads it and none has its own reader. */
const gatedSuites = new WeakMap<ArtifactStore, (of: GatedList) => Promise<GatedSuite | null>>()

interface GatedList {
  run: string
  suite: string
}

/** The image of the task's gate. An episode must be played and graded in the same bytes on every host. */
export async function gatedDigest(
  store: ArtifactStore,
  { run, suite, taskId }: GatedList & { taskId: string },
): Promise<{ expectedDigest?: string }> {
  const read =
    gatedSuites.get(store) ??
    cachedRecords<GatedList, GatedSuite>(store, {
      key: (of) => gateKeys.gated(of.run, of.suite),
      max: KEPT.gatedSuites,
      freshMs: RUN_RECORDS_FRESH_MS,
    })
  gatedSuites.set(store, read)
  const digests = (await read({ run, suite }))?.digests ?? {}
  // A task may have the name of a method that every object has.
  const expectedDigest = Object.hasOwn(digests, taskId) ? digests[taskId] : undefined
  return expectedDigest === undefined ? {} : { expectedDigest }
}

/**
 * Reads a record of an episode that is already lost; null if the record is corrupt or absent. The corrupt record that excluded the
 * episode must not fail the run too. Records of episodes that count are read strictly.
 */
export async function readUnlessCorrupt<T extends object>(
  store: Pick<ArtifactStore, 'readRecord'>,
  key: string,
): Promise<T | null> {
  try {
    return await store.readRecord<T>(key)
  } catch (error) {
    if (isLonghaulError(error) && error.code === 'Artifact.Corrupt') return null
    throw error
  }
}
