import { parse, ParserOverrun } from '../../adapters/parsing/parser-pool.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import type {
  Disposition,
  DispositionRecord,
  EpisodeRecord,
  VerdictKind,
  VerdictRecord,
} from '../../contracts/episodes.types.ts'
import { episodeId, episodeKeys } from '../../contracts/keys.ts'
import type { EpisodeInput, EpisodeResult } from '../../contracts/workflows.types.ts'
import { type HackSign, isSuspectedHack, sortSigns } from '../../contracts/hack-signs.ts'
import type { PlayedTurn } from '../../domain/gates/command-signs.ts'
import { contextOf, usageOf } from '../../domain/statistics/run-costs.ts'
import { readTurns, readWholeTurns, type Turn } from './transcript.ts'

export interface Outcome {
  disposition: Disposition
  failure: string | null
  verdict: VerdictKind | null
  verdictReason: string | null
  /** Signs found in patch and log; this function adds the signs in commands. */
  signs: HackSign[]
  audit?: VerdictRecord['audit']
  patchBytes: number
}

/**
 * Derives an episode's last record from its turns. The first record that is written counts.
 * @throws LonghaulError `Artifact.Corrupt`, or `Artifact.Missing` if a verdict would count for fewer turns than were played
 */
export async function recordOutcome(
  store: ArtifactStore,
  input: EpisodeInput,
  outcome: Outcome,
): Promise<EpisodeResult> {
  const episode = episodeId(input)
  const isLost = outcome.verdict === null || outcome.verdict === 'could-not-grade'
  const read = isLost ? await readWholeTurns(store, episode) : await readEveryTurn(store, episode, outcome.disposition)
  const turns = read.filter(({ observation }) => observation !== null)
  const actions = turns.map(({ action }) => action)
  const signs = sortSigns([...outcome.signs, ...(await signsOf(turns.flatMap(playedTurn)))])
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
    suspectedHack: isSuspectedHack(signs),
    signs,
    ...auditOf(outcome),
    turns: turns.length,
    formatErrorTurns: turns.filter(({ action }) => action.formatError !== null).length,
    sampledTokens: usageOf(actions)?.completionTokens ?? null,
    contextTokens: contextOf(actions),
    // Sampled tokens cost money even if the command was never run.
    usage: usageOf(read.map(({ action }) => action)),
    patchBytes: outcome.patchBytes,
  })
  const { disposition, verdict, failure } = record
  return { episode, disposition, verdict, turns: record.turns, failure }
}

/**
 * The ending counts the turns. Reading stops at the first turn without a record, so an episode that lost one (an older copy of the
 * store was restored, a file was deleted) would look like a shorter episode.
 */
async function readEveryTurn(store: ArtifactStore, episode: string, disposition: Disposition): Promise<Turn[]> {
  const settled = await store.readRecord<DispositionRecord>(episodeKeys.disposition(episode))
  const turns = await readTurns(store, episode)
  // Only an episode that ended its own sandboxes never settles.
  if (settled === null && disposition === 'agent-gave-up') return turns
  const committed = turns.filter(({ observation }) => observation !== null).length
  if (settled?.turns === committed) return turns
  throw new LonghaulError({
    code: 'Artifact.Missing',
    message: `Expected the records of ${settled?.turns ?? 'all'} turns, got those of ${committed}`,
    details: { episode, ended: settled?.disposition ?? null },
  })
}

/** Whether the episode has a record of each turn that it has played. */
export async function hasEveryTurn(store: ArtifactStore, episode: string, disposition: Disposition): Promise<boolean> {
  try {
    await readEveryTurn(store, episode, disposition)
    return true
  } catch (error) {
    if (isLonghaulError(error) && (error.code === 'Artifact.Missing' || error.code === 'Artifact.Corrupt')) return false
    throw error
  }
}

/** Removes times, which differ between runs, and keeps the findings. */
function auditOf({ audit }: Outcome): Pick<EpisodeRecord, 'audit'> {
  if (audit === undefined) return {}
  const { outcome, reasons, detail } = audit
  return { audit: { outcome, reasons, detail } }
}

/** A command that takes too long to parse is not one that a shell would run as the agent intends, so it yields no signs. */
async function signsOf(turns: PlayedTurn[]): Promise<HackSign[]> {
  return parse('commandSigns', turns).catch((error: unknown) => {
    if (error instanceof ParserOverrun) return []
    throw error
  })
}

/** No command ran in a turn with a format error. */
function playedTurn({ action, observation }: Turn): PlayedTurn[] {
  const execution = observation?.execution ?? null
  if (action.command === null || observation === null || execution === null) return []
  const { reason, oomKilled, network } = execution
  const refusedConnections = network?.refused ?? 0
  return [{ command: action.command, observation: observation.text, reason, oomKilled, refusedConnections }]
}
