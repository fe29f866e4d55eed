import type { RecordedEnding } from '../../contracts/activities.types.ts'
import type { ArtifactRef, ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { CaptureRecord, DispositionRecord, EpisodeRecord } from '../../contracts/episodes.types.ts'
import { episodeId, episodeKeys } from '../../contracts/keys.ts'
import type { EpisodeInput } from '../../contracts/workflows.types.ts'
import { readIfWhole } from '../runtime/whole-record.ts'

/**
 * How an episode ended in an earlier execution: with a result, or with work that only waits for its grading. Neither needs a
 * sandbox. Null: there is something left to play or to capture. A torn record counts as absent: what comes after finds out.
 */
export async function recordedEnding(store: ArtifactStore, input: EpisodeInput): Promise<RecordedEnding | null> {
  const episode = episodeId(input)
  const result = await readIfWhole<EpisodeRecord>(store, episodeKeys.result(episode))
  if (result !== null) {
    const { disposition, verdict, turns, failure } = result
    return { kind: 'result', result: { episode, disposition, verdict, turns, failure, recalled: true } }
  }
  const settled = await readIfWhole<DispositionRecord>(store, episodeKeys.disposition(episode))
  if (settled === null) return null
  const { disposition } = settled
  if (disposition !== 'submitted') return { kind: 'ended', disposition, patch: null }
  const patch = await capturedPatch(store, episode)
  return patch === null ? null : { kind: 'ended', disposition, patch }
}

async function capturedPatch(store: ArtifactStore, episode: string): Promise<ArtifactRef | null> {
  const capture = await readIfWhole<CaptureRecord>(store, episodeKeys.capture(episode))
  if (capture === null) return null
  return { key: episodeKeys.patch(episode), sha256: capture.sha256OfPatch, bytes: capture.bytes }
}
