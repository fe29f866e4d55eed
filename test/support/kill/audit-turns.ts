import { stat } from 'node:fs/promises'
import type { ArtifactStore } from '../../../src/contracts/artifacts.types.ts'
import type { EpisodeRecord } from '../../../src/contracts/episodes.types.ts'
import { episodeKeys } from '../../../src/contracts/keys.ts'
import type { Exchange } from '../recording-proxy.ts'
import { type RecordedTurn, turnsOf } from '../run-records.ts'
import { promptLengths } from './prompt-lengths.ts'
import { countExecutions } from './trace-executions.ts'

export interface TurnAudit {
  turns: number
  /** Samples that were requested again because the first was lost before its record: at most one per kill and episode is allowed. */
  sampledAgain: number
  /** Commands that are proven to have run exactly once. */
  commandsCounted: number
  violations: string[]
}

export interface AuditTurnsOptions {
  /** @default false */
  isTraced?: boolean
  /** How many requests of each episode may start after their turn's record. A worker that is frozen between its last look at the store and
   *  its request sends that request when it wakes, and the record of the other worker is the one that counts. @default 0 */
  lateSamples?: number
  /** The file whose modification time dates a record. @default the store's own: a bucket has it below its server */
  fileOf?: (key: string) => string
}

/**
 * No committed turn was sampled again: a request for a turn that starts after the turn's action record was written is a violation,
 * and so is a request for a turn without a record. Turns are distinguished by the length of their prompt, which only grows. No turn
 * was executed twice: each has one token and one answer, and if `traceExecutions` marked the replies, the patch of every episode
 * proves that each of its commands ran once.
 */
export async function auditTurns(
  store: ArtifactStore,
  episodes: readonly EpisodeRecord[],
  exchanges: readonly Exchange[],
  { isTraced = false, lateSamples = 0, fileOf = (key) => store.path(key) }: AuditTurnsOptions = {},
): Promise<TurnAudit> {
  const audit: TurnAudit = { turns: 0, sampledAgain: 0, commandsCounted: 0, violations: [] }
  const tokens = new Set<string>()
  const sessions = Map.groupBy(exchanges, ({ session }) => session)
  for (const record of episodes) {
    const turns = await turnsOf(store, record.episode)
    const asked = sessions.get(record.episode) ?? []
    audit.turns += turns.length
    audit.violations.push(...recordFaults(record, turns, tokens))
    const { faults, late } = await samplingFaults(fileOf, record.episode, turns, asked)
    audit.violations.push(...faults, ...(late.length > lateSamples ? late : []))
    audit.sampledAgain += asked.length - new Set(asked.map(({ promptTokens }) => promptTokens)).size
    if (isTraced) {
      const bytes = record.disposition === 'submitted' ? await store.read(episodeKeys.patch(record.episode)) : null
      const patch = bytes === null ? null : Buffer.from(bytes).toString('latin1')
      const { commands, faults } = countExecutions({ record, turns, patch })
      audit.commandsCounted += commands
      audit.violations.push(...faults)
    }
    sessions.delete(record.episode)
  }
  for (const session of sessions.keys()) audit.violations.push(`${session} was sampled for and has no result`)
  return audit
}

function recordFaults(
  { episode, turns: counted }: EpisodeRecord,
  turns: RecordedTurn[],
  tokens: Set<string>,
): string[] {
  const faults: string[] = []
  if (turns.length !== counted) faults.push(`${episode} counts ${counted} turns and has ${turns.length} records`)
  for (const [index, { action, observation }] of turns.entries()) {
    if (action.turn !== index) faults.push(`${episode} turn ${index} says that it is turn ${action.turn}`)
    if (observation?.turn !== index) faults.push(`${episode} turn ${index} has no answer of its own`)
    if (tokens.has(action.token)) faults.push(`${episode} turn ${index} has the token of another turn`)
    tokens.add(action.token)
  }
  return faults
}

async function samplingFaults(
  fileOf: (key: string) => string,
  episode: string,
  turns: readonly RecordedTurn[],
  asked: readonly Exchange[],
): Promise<{ faults: string[]; late: string[] }> {
  const faults: string[] = []
  const late: string[] = []
  const turnOf = new Map(promptLengths(turns).map((length, turn) => [length, turn] as const))
  for (const { promptTokens, startedMs } of asked) {
    const turn = turnOf.get(promptTokens)
    if (turn === undefined) {
      faults.push(`${episode} was sampled for with a prompt of ${promptTokens} tokens, which no record has`)
      continue
    }
    const { mtimeMs } = await stat(fileOf(episodeKeys.action(episode, turn)))
    if (startedMs > mtimeMs) {
      late.push(`${episode} turn ${turn} was sampled again ${Math.round(startedMs - mtimeMs)} ms after its record`)
    }
  }
  return { faults, late }
}
