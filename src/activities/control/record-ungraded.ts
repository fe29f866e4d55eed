import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { Disposition } from '../../contracts/episodes.types.ts'
import type { EpisodeInput, EpisodeResult } from '../../contracts/workflows.types.ts'
import { recordOutcome } from '../episode-result.ts'

/** An episode without verdict: it has no reward, counts in no mean, and enters the ledger as excluded. */
export function recordUngraded(
  store: ArtifactStore,
  input: EpisodeInput & { disposition: Disposition; failure: string | null },
): Promise<EpisodeResult> {
  const { disposition, failure } = input
  const ungraded = { verdict: null, verdictReason: null, signs: [], patchBytes: 0 }
  return recordOutcome(store, input, { disposition, failure, ...ungraded })
}
