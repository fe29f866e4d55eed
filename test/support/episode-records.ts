import { episodeId } from '../../src/contracts/keys.ts'
import type { EpisodeRecord } from '../../src/contracts/episodes.types.ts'

/** A submitted, unresolved episode of six turns, changed by `fields`. */
export function makeRecord(fields: Partial<EpisodeRecord> = {}): EpisodeRecord {
  const identity = { run: 'r', stage: 's', iteration: 1, taskId: 't', index: 0, ...fields }
  return {
    schema: 'longhaul.episode-result/1',
    episode: episodeId(identity),
    policy: 'v000000-aaaaaaaa',
    disposition: 'submitted',
    failure: null,
    verdict: 'unresolved',
    verdictReason: null,
    suspectedHack: false,
    signs: [],
    turns: 6,
    formatErrorTurns: 0,
    sampledTokens: 60,
    contextTokens: 600,
    patchBytes: 100,
    ...identity,
  }
}
