import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { runKeys, suiteKeys } from '../../contracts/keys.ts'
import type { OverlapRecord } from '../../contracts/suites.types.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { type ComparedTask, findOverlap, type Overlap } from '../../domain/gates/suite-overlap.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { readOrThrow, type SuiteReader } from '../runtime/stored-records.ts'

/** Concurrent reads, which a networked store answers as fast as one. */
const READ_AT_ONCE = 32
/** Maximum number of tasks in the message; the record lists all. */
const NAMED = 10

export interface RequireDisjointInput {
  run: string
  train: string
  /** Hashes of all suites that the run evaluates. */
  evaluated: string[]
}

/**
 * Proves that no training task is evaluated, before anything is gated or sampled, because a score on tasks that were trained on is
 * meaningless. The result is stored as a record of the run.
 * @throws LonghaulError `Suite.Overlap` unless the recipe excludes such tasks, or if none would be left
 */
export async function requireDisjoint(
  deps: { store: ArtifactStore; suites: SuiteReader; recipe: Recipe },
  { run, train, evaluated }: RequireDisjointInput,
): Promise<{ overlapping: number }> {
  const { store, recipe } = deps
  const training = await readSuite(deps, train)
  const others: Awaited<ReturnType<typeof readSuite>>[] = []
  for (const suite of evaluated) others.push(await readSuite(deps, suite))
  const overlaps = findOverlap({
    train: training.tasks,
    evaluated: others.map(({ name, tasks }) => ({ suite: name, tasks })),
    hash: sha256Hex,
  })
  const taskIds = [...new Set(overlaps.map(({ taskId }) => taskId))]
  await store.putRecord<OverlapRecord>(runKeys.overlap(run), {
    schema: 'longhaul.overlap/1',
    run,
    train,
    evaluated,
    tasks: training.tasks.length,
    overlaps,
    excluded: recipe.data.overlap === 'exclude' ? taskIds : [],
  })
  const left = training.tasks.length - taskIds.length
  if (taskIds.length === 0 || (recipe.data.overlap === 'exclude' && left > 0)) return { overlapping: taskIds.length }
  throw new LonghaulError({
    code: 'Suite.Overlap',
    message: `Expected no training task among the evaluated ones, but ${taskIds.length} of ${training.tasks.length} of ${training.name} are: ${nameThem(overlaps)}. ${advice(left)}`,
    details: { record: runKeys.overlap(run) },
  })
}

/** Bypasses the worker's cache, which would otherwise hold whole training suites in memory. */
async function readSuite(
  { store, suites }: { store: ArtifactStore; suites: SuiteReader },
  suite: string,
): Promise<{ name: string; tasks: ComparedTask[] }> {
  const { name, taskIds } = await suites(suite)
  const tasks: ComparedTask[] = []
  const read = async (id: string): Promise<ComparedTask> => {
    const { taskId, repo, baseCommit, statement } = await readOrThrow<Task>(store, suiteKeys.task(suite, id))
    return { taskId, repo, baseCommit, statement }
  }
  for (let from = 0; from < taskIds.length; from += READ_AT_ONCE) {
    tasks.push(...(await Promise.all(taskIds.slice(from, from + READ_AT_ONCE).map(read))))
  }
  return { name, tasks }
}

const WORDS = { id: 'id', commit: 'repository and base commit', statement: 'statement' }

function nameThem(overlaps: readonly Overlap[]): string {
  const named = overlaps
    .slice(0, NAMED)
    .map(
      ({ taskId, suite, as, same }) =>
        `${taskId} is ${as} of ${suite} (same ${same.map((one) => WORDS[one]).join(', ')})`,
    )
  const more = overlaps.length - named.length
  return `${named.join('; ')}${more === 0 ? '' : `; and ${more} more`}`
}

function advice(left: number): string {
  return left === 0
    ? 'No training task would be left: name other tasks in data.train or data.heldOut'
    : 'Name other tasks in data.train, or set data.overlap to exclude: they are then never trained on'
}
