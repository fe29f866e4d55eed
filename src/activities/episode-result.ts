import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import type { Disposition, EpisodeRecord, VerdictKind } from '../contracts/episodes.types.ts'
import { episodeId, episodeKeys } from '../contracts/keys.ts'
import type { EpisodeInput, EpisodeResult } from '../contracts/workflows.types.ts'
import { readTurns } from './host/transcript.ts'

export interface Outcome {
  disposition: Disposition
  failure: string | null
  verdict: VerdictKind | null
  verdictReason: string | null
  patchBytes: number
}

/** The last record of an episode, derived from its turns; the first one written stays. */
export async function recordOutcome(
  store: ArtifactStore,
  input: EpisodeInput,
  outcome: Outcome,
): Promise<EpisodeResult> {
  const episode = episodeId(input)
  const turns = (await readTurns(store, episode)).filter(({ observation }) => observation !== null)
  const sampledTokens = turns.reduce((sum, { action }) => sum + action.ids.length, 0)
  const { record } = await store.claimRecord<EpisodeRecord>(episodeKeys.result(episode), {
    schema: 'longhaul.episode-result/1',
    episode,
    run: input.run,
    stage: input.stage,
    iteration: input.iteration,
    taskId: input.taskId,
    index: input.index,
    policy: input.policy,
    disposition: outcome.disposition,
    failure: outcome.failure,
    verdict: outcome.verdict,
    verdictReason: outcome.verdictReason,
    turns: turns.length,
    formatErrorTurns: turns.filter(({ action }) => action.formatError !== null).length,
    sampledTokens,
    contextTokens: turns.reduce((sum, { action }) => sum + action.promptDelta.length, sampledTokens),
    patchBytes: outcome.patchBytes,
  })
  const { disposition, verdict, failure } = record
  return { episode, disposition, verdict, turns: record.turns, failure }
}
