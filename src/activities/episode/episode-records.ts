import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { Coordinates, EpisodeRecord } from '../../contracts/episodes.types.ts'
import { episodeKeys } from '../../contracts/keys.ts'
import { readOrThrow } from '../runtime/stored-records.ts'
import { createSlots, type Slots } from '../../platform/limiter.ts'

/** Returns every finished episode of an iteration, in key order, whichever finished first. */
export async function readEpisodeRecords(store: ArtifactStore, coordinates: Coordinates): Promise<EpisodeRecord[]> {
  return readResults(store, episodeKeys.ofIteration(coordinates))
}

/** Returns every finished episode of all iterations of a stage. */
export async function readStageRecords(
  store: ArtifactStore,
  { run, stage }: Pick<Coordinates, 'run' | 'stage'>,
): Promise<EpisodeRecord[]> {
  return readResults(store, episodeKeys.ofStage(run, stage))
}

async function readResults(store: ArtifactStore, prefix: string): Promise<EpisodeRecord[]> {
  const keys = (await store.list(prefix)).filter((key) => key.endsWith('/result.json'))
  const slots = createSlots(READS)
  return Promise.all(keys.map((key) => slots.use(() => readOrThrow<EpisodeRecord>(store, key))))
}

/** Maximum concurrent requests, because more would only queue for the disk. */
const READS = 32

export interface EpisodePlace {
  episode: string
  stage: string
  iteration: number
  taskId: string
  index: number
}

/** Lists a run's episodes in key order without listing their turns, because a run of 10,000 episodes has a million files. Folders
 *  are `<stage>/<iteration>/<task>/<index>`. */
export async function findEpisodes(
  store: ArtifactStore,
  run: string,
  slots: Slots = createSlots(READS),
): Promise<EpisodePlace[]> {
  const found: EpisodePlace[] = []
  for (const stage of await store.folders(episodeKeys.ofRun(run))) {
    found.push(...(await findStageEpisodes(store, { run, stage }, slots)))
  }
  return found
}

export async function findStageEpisodes(
  store: ArtifactStore,
  { run, stage }: { run: string; stage: string },
  slots: Slots = createSlots(READS),
): Promise<EpisodePlace[]> {
  const root = episodeKeys.ofStage(run, stage)
  const found: EpisodePlace[] = []
  for (const iteration of await store.folders(root)) {
    const tasks = await store.folders(`${root}${iteration}/`)
    const indices = await Promise.all(
      tasks.map((task) => slots.use(() => store.folders(`${root}${iteration}/${task}/`))),
    )
    for (const [at, taskId] of tasks.entries()) {
      for (const index of indices[at] ?? []) found.push(placeOf(`${run}/${stage}/${iteration}/${taskId}/${index}`))
    }
  }
  return found
}

export function placeOf(episode: string): EpisodePlace {
  const [, stage = '', iteration = '', taskId = '', index = ''] = episode.split('/')
  return { episode, stage, iteration: Number(iteration), taskId, index: Number(index) }
}
