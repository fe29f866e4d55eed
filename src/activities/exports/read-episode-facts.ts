/** Reads the episodes of a run one after another, so that a process holds a few dozen of them and never all. */
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type {
  EpisodeRecord,
  EpisodeSpec,
  EpisodeStart,
  ObservationRecord,
  VerdictRecord,
  VerdictSuite,
} from '../../contracts/episodes.types.ts'
import { isLonghaulError } from '../../contracts/errors.ts'
import { episodeKeys, policyKeys, runKeys } from '../../contracts/keys.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import type { Ledger, LedgerEntry } from '../../domain/ledger/ledger.ts'
import { unauditedRewardsOf } from '../../domain/rewards/payment.ts'
import { stageRewardRule } from '../../domain/rewards/rewards.ts'
import type { EpisodeFacts } from '../../report/exports/episode-columns.ts'
import { type EpisodePlace, findStageEpisodes } from '../episode/episode-records.ts'
import { verdictSuite } from '../evaluation/suite-origin.ts'
import { cachedRecords, createTaskReader, readUnlessCorrupt, type TaskReader } from '../runtime/stored-records.ts'
import type { ExportSubject } from './export-subject.ts'
import type { IterationPlan, StoredRecipe } from '../../contracts/run-records.types.ts'

/** Number of episodes that are read concurrently. */
const AT_ONCE = 32

export interface ReadEpisodesInput {
  store: ArtifactStore
  subject: ExportSubject
  signal?: AbortSignal
}

/** Yields episodes in order of stages, iterations, tasks and attempts. A corrupt record makes its episode `unreadable` and does not
 *  end the export. */
export async function* readEpisodeFacts(input: ReadEpisodesInput): AsyncGenerator<EpisodeFacts> {
  const { store, subject, signal } = input
  const readFacts = await createFactsReader(store, subject.run)
  for (const stage of subject.stages) {
    const places = await findStageEpisodes(store, { run: subject.run, stage })
    for (const [iteration, ofIteration] of Map.groupBy(places, (place) => place.iteration)) {
      const context = await readIteration(store, { run: subject.run, stage, iteration })
      for (let at = 0; at < ofIteration.length; at += AT_ONCE) {
        signal?.throwIfAborted()
        yield* await Promise.all(ofIteration.slice(at, at + AT_ONCE).map((place) => readFacts(place, context)))
      }
    }
  }
}

interface IterationFacts {
  suite: string | null
  dataset: VerdictSuite | null
  entries: ReadonlyMap<string, LedgerEntry>
}

async function readIteration(
  store: ArtifactStore,
  { run, stage, iteration }: { run: string; stage: string; iteration: number },
): Promise<IterationFacts> {
  const plan = await readUnlessCorrupt<IterationPlan>(store, runKeys.plan(run, stage, iteration))
  const ledger = await readUnlessCorrupt<Ledger>(store, runKeys.ledger(run, stage, iteration))
  const suite = plan?.suite ?? null
  return {
    suite,
    dataset: suite === null ? null : await nullIfGone(verdictSuite(store, suite)),
    entries: new Map((ledger?.entries ?? []).map((entry) => [entry.episode, entry])),
  }
}

type FactsReader = (place: EpisodePlace, context: IterationFacts) => Promise<EpisodeFacts>

async function createFactsReader(store: ArtifactStore, run: string): Promise<FactsReader> {
  const stored = await readUnlessCorrupt<StoredRecipe>(store, runKeys.recipe(run))
  const readTask = createTaskReader(store)
  const readPolicy = cachedRecords<string, PolicyRef>(store, { key: (version) => policyKeys.ref(version), max: 64 })
  const policyManifest = async (version: string | undefined): Promise<string | null> =>
    version === undefined ? null : ((await readPolicy(version))?.manifestSha256 ?? null)

  return async (place, { suite: planned, dataset, entries }) => {
    const { episode, stage } = place
    const read = <T extends object>(key: string): Promise<T | null> => readUnlessCorrupt<T>(store, key)
    const [{ record, state }, spec, start, verdict] = await Promise.all([
      readResult(store, episode),
      read<EpisodeSpec>(episodeKeys.spec(episode)),
      read<EpisodeStart>(episodeKeys.start(episode)),
      read<VerdictRecord>(episodeKeys.verdict(episode)),
    ])
    const turns = record?.turns ?? 0
    const last = turns === 0 ? null : await read<ObservationRecord>(episodeKeys.observation(episode, turns - 1))
    const suite = spec?.suiteHash ?? planned
    return {
      run,
      ...place,
      state,
      record,
      spec,
      start,
      verdict,
      lastObservedAtMs: last?.observedAtMs ?? null,
      entry: entries.get(episode) ?? null,
      suite,
      dataset: verdict?.suite ?? dataset,
      task: await taskOf(readTask, suite, place.taskId),
      policyManifest: await policyManifest(record?.policy ?? spec?.policy),
      recipeHash: stored?.hash ?? null,
      rewardRule: stored === null ? null : stageRewardRule(stored.recipe, stage),
      unaudited: unauditedRewardsOf(stored?.recipe ?? {}),
    }
  }
}

async function readResult(
  store: ArtifactStore,
  episode: string,
): Promise<Pick<EpisodeFacts, 'record'> & Pick<EpisodeFacts, 'state'>> {
  try {
    const record = await store.readRecord<EpisodeRecord>(episodeKeys.result(episode))
    return { record, state: record === null ? 'unfinished' : 'finished' }
  } catch (error) {
    if (isLonghaulError(error) && error.code === 'Artifact.Corrupt') return { record: null, state: 'unreadable' }
    throw error
  }
}

async function taskOf(
  readTask: TaskReader,
  suite: string | null,
  taskId: string,
): Promise<Pick<Task, 'repo' | 'rowHash'> | null> {
  const task = suite === null ? null : await nullIfGone(readTask({ suite, taskId }))
  return task === null ? null : { repo: task.repo, rowHash: task.rowHash }
}

/** If a suite was removed, only its facts are missing. An unreachable store is an error. */
export async function nullIfGone<T>(reading: Promise<T>): Promise<T | null> {
  try {
    return await reading
  } catch (error) {
    if (isLonghaulError(error) && (error.code === 'Artifact.Missing' || error.code === 'Artifact.Corrupt')) return null
    throw error
  }
}
