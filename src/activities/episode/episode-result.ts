import { parse, ParserOverrun } from '../../adapters/parsing/parser-pool.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { Disposition, EpisodeRecord, VerdictKind, VerdictRecord } from '../../contracts/episodes.types.ts'
import { episodeId, episodeKeys } from '../../contracts/keys.ts'
import type { EpisodeInput, EpisodeResult } from '../../contracts/workflows.types.ts'
import { type HackSign, isSuspectedHack, sortSigns } from '../../contracts/hack-signs.ts'
import type { PlayedTurn } from '../../domain/gates/command-signs.ts'
import { contextOf, usageOf } from '../../domain/statistics/token-usage.ts'
import { readTurns, readWholeTurns, type Turn } from './transcript.ts'

export interface Outcome {
  disposition: Disposition
  failure: string | null
  verdict: VerdictKind | null
  verdictReason: string | null
  /** Signs in patch and log; this function finds the signs in commands. */
  signs: HackSign[]
  audit?: VerdictRecord['audit']
  patchBytes: number
}

/** The last record of an episode, derived from its turns; the first one written stays. */
export async function recordOutcome(
  store: ArtifactStore,
  input: EpisodeInput,
  outcome: Outcome,
): Promise<EpisodeResult> {
  const episode = episodeId(input)
  const isLost = outcome.verdict === null || outcome.verdict === 'could-not-grade'
  const read = isLost ? await readWholeTurns(store, episode) : await readTurns(store, episode)
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
    // Sampled tokens cost money also where the command was never run.
    usage: usageOf(read.map(({ action }) => action)),
    patchBytes: outcome.patchBytes,
  })
  const { disposition, verdict, failure } = record
  return { episode, disposition, verdict, turns: record.turns, failure }
}

/** Times differ from run to run; what was found does not. */
function auditOf({ audit }: Outcome): Pick<EpisodeRecord, 'audit'> {
  if (audit === undefined) return {}
  const { outcome, reasons, detail } = audit
  return { audit: { outcome, reasons, detail } }
}

/** Commands that take too long to read are none that a shell would run as the agent means it; no sign of them voids anything. */
async function signsOf(turns: PlayedTurn[]): Promise<HackSign[]> {
  return parse('commandSigns', turns).catch((error: unknown) => {
    if (error instanceof ParserOverrun) return []
    throw error
  })
}

/** Nothing ran in a turn with a format error. */
function playedTurn({ action, observation }: Turn): PlayedTurn[] {
  const execution = observation?.execution ?? null
  if (action.command === null || observation === null || execution === null) return []
  const { reason, oomKilled, network } = execution
  const refusedConnections = network?.refused ?? 0
  return [{ command: action.command, observation: observation.text, reason, oomKilled, refusedConnections }]
}
