import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { Coordinates, EpisodeRecord } from '../../contracts/episodes.types.ts'
import { episodeKeys } from '../../contracts/keys.ts'
import { readOrThrow } from '../runtime/stored-records.ts'

/** Every finished episode of an iteration, by key: the order never depends on which finished first. */
export async function readEpisodeRecords(store: ArtifactStore, coordinates: Coordinates): Promise<EpisodeRecord[]> {
  return readResults(store, episodeKeys.ofIteration(coordinates))
}

/** Every finished episode of all iterations of a stage. */
export async function readStageRecords(
  store: ArtifactStore,
  { run, stage }: Pick<Coordinates, 'run' | 'stage'>,
): Promise<EpisodeRecord[]> {
  return readResults(store, episodeKeys.ofStage(run, stage))
}

async function readResults(store: ArtifactStore, prefix: string): Promise<EpisodeRecord[]> {
  const keys = (await store.list(prefix)).filter((key) => key.endsWith('/result.json'))
  const records: EpisodeRecord[] = []
  for (const key of keys) records.push(await readOrThrow<EpisodeRecord>(store, key))
  return records
}
