import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { isLonghaulError } from '../../contracts/errors.ts'

/**
 * A record of an episode that is lost anyway, null where it is torn or absent: what excluded the episode must not end the run as
 * well. Episodes that count are read strictly.
 */
export async function readIfWhole<T extends object>(
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
