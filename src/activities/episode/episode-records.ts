import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { EpisodeRecord } from '../../contracts/episodes.types.ts'
import { readOrThrow } from '../runtime/stored-records.ts'

export interface Place {
  run: string
  stage: string
  iteration: number
}

/** Every finished episode of an iteration, by key, so that the order never depends on who finished first. */
export async function readEpisodeRecords(store: ArtifactStore, place: Place): Promise<EpisodeRecord[]> {
  return readResults(store, `episodes/${place.run}/${place.stage}/${String(place.iteration).padStart(4, '0')}/`)
}

/** Every finished episode of all iterations of a stage. */
export async function readStageRecords(
  store: ArtifactStore,
  { run, stage }: Pick<Place, 'run' | 'stage'>,
): Promise<EpisodeRecord[]> {
  return readResults(store, `episodes/${run}/${stage}/`)
}

async function readResults(store: ArtifactStore, prefix: string): Promise<EpisodeRecord[]> {
  const keys = (await store.list(prefix)).filter((key) => key.endsWith('/result.json'))
  const records: EpisodeRecord[] = []
  for (const key of keys) records.push(await readOrThrow<EpisodeRecord>(store, key))
  return records
}
