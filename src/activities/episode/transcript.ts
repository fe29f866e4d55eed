import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { ActionRecord, EpisodeStart, ObservationRecord, SandboxState } from '../../contracts/episodes.types.ts'
import { episodeKeys } from '../../contracts/keys.ts'
import type { TurnMark } from '../../contracts/sandbox.types.ts'
import { readUnlessCorrupt } from '../runtime/stored-records.ts'

export interface Turn {
  action: ActionRecord
  /** Null for a turn that was sampled but whose answer is not committed yet. */
  observation: ObservationRecord | null
}

/** An episode as its records tell it. Only the last turn may lack its observation. */
export interface Transcript {
  start: EpisodeStart
  turns: Turn[]
}

/** @param known committed turns from the first on, which are not read again */
export function readTurns(store: ArtifactStore, episode: string, known: readonly Turn[] = []): Promise<Turn[]> {
  return collectTurns(episode, known, (key) => store.readRecord(key))
}

/** The turns of an episode that is lost, up to a record that is torn. */
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

/** Every id the policy has read or written so far, and those of its next prompt: appended as they came, never tokenised again. */
export function contextIds({ turns }: Transcript, promptDelta: readonly number[]): number[] {
  // `concat` copies whole arrays, not ids one by one: an episode has up to 131,072 of them, and asks at each turn.
  const ids: number[] = []
  return ids.concat(...turns.flatMap(({ action }) => [action.promptDelta, action.ids]), promptDelta)
}

export function committedTurns({ turns }: Transcript): number {
  return turns.filter(({ observation }) => observation !== null).length
}

/** The last turn that ran a command, of those before `turn`: what a sandbox must have done last to go on there. Null: nothing ran. */
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
 * What the episode has used of its time limit: sampling and commands, each measured by a clock of the worker that never jumps. Waiting for a
 * dead host, a stopped server or a place costs the policy nothing, so an outage never becomes its ending.
 */
export function spentMs({ turns }: Transcript): number {
  return turns.reduce(
    (sum, { action, observation }) => sum + action.sampleMs + (observation?.execution?.wallMs ?? 0),
    0,
  )
}
