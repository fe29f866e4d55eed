import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { ActionRecord, EpisodeStart, ObservationRecord, SandboxState } from '../../contracts/episodes.types.ts'
import { episodeKeys } from '../../contracts/keys.ts'
import type { TurnMark } from '../../contracts/sandbox.types.ts'
import { readUnlessCorrupt } from '../runtime/stored-records.ts'

export interface Turn {
  action: ActionRecord
  /** Null for a turn that was sampled but has no committed observation yet. */
  observation: ObservationRecord | null
}

/** An episode according to its records. Only the last turn may lack its observation. */
export interface Transcript {
  start: EpisodeStart
  turns: Turn[]
}

/** @param known committed turns from the first on, which are not read again */
export function readTurns(store: ArtifactStore, episode: string, known: readonly Turn[] = []): Promise<Turn[]> {
  return collectTurns(episode, known, (key) => store.readRecord(key))
}

/** The turns of a lost episode, up to the first corrupt record. */
export function readWholeTurns(store: ArtifactStore, episode: string): Promise<Turn[]> {
  return collectTurns(episode, [], (key) => readUnlessCorrupt(store, key))
}

async function collectTurns(
  episode: string,
  known: readonly Turn[],
  read: <T extends object>(key: string) => Promise<T | null>,
): Promise<Turn[]> {
  const turns: Turn[] = [...known]
  for (let index = known.length; ; index++) {
    const action = await read<ActionRecord>(episodeKeys.action(episode, index))
    if (action === null) return turns
    const observation = await read<ObservationRecord>(episodeKeys.observation(episode, index))
    turns.push({ action, observation })
    if (observation === null) return turns
  }
}

/** Returns every id that the policy has read or written, and those of its next prompt, appended as received and never re-tokenised. */
export function contextIds({ turns }: Transcript, promptDelta: readonly number[]): number[] {
  // `concat` copies whole arrays and not single ids: an episode has up to 131,072 of them and calls this every turn.
  const ids: number[] = []
  return ids.concat(...turns.flatMap(({ action }) => [action.promptDelta, action.ids]), promptDelta)
}

export function committedTurns({ turns }: Transcript): number {
  return turns.filter(({ observation }) => observation !== null).length
}

/** Returns the last turn before `turn` that ran a command, which a sandbox must have run to continue. Null if no command ran. */
export function lastRunBefore(turns: readonly Turn[], turn: number): TurnMark | null {
  const last = turns.findLast(({ action }) => action.turn < turn && action.command !== null)
  return last === undefined ? null : markOf(last)
}

export function markOf({ action: { turn, token } }: Turn): TurnMark {
  return { turn, token }
}

export function currentState({ start, turns }: Transcript): SandboxState {
  return turns.findLast(({ observation }) => observation !== null)?.observation?.state ?? start.state
}

/**
 * The used part of the episode's time limit: sampling and commands, measured by the worker's monotonic clock. Waits for a dead host, a
 * stopped server or a free place are excluded, so an outage never ends an episode.
 */
export function spentMs({ turns }: Transcript): number {
  return turns.reduce(
    (sum, { action, observation }) => sum + action.sampleMs + (observation?.execution?.wallMs ?? 0),
    0,
  )
}
