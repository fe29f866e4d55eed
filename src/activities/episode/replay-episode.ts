import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { ObservationRecord, SandboxState, TreeRecord } from '../../contracts/episodes.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { episodeKeys } from '../../contracts/keys.ts'
import type { TurnResult } from '../../contracts/sandbox.types.ts'
import type { Turn } from './transcript.ts'

export interface ReplayInput {
  store: ArtifactStore
  episode: string
  turns: readonly Turn[]
  /** The first turn that the sandbox has not seen; earlier ones are not run again. */
  from: number
  /** Runs the command of a committed turn under the turn's own token. */
  execute: (turn: Turn, command: string) => Promise<TurnResult>
  /** Hash of the sandbox's files after a turn. */
  hash: (turn: number) => Promise<string>
}

/**
 * Rebuilds a world in a sandbox that lacks turns: every committed command once, under its own token, with exit code, shell and tool
 * state compared after each and the tree hash wherever one was recorded. Tools that only look are run too: they are cheap, and so
 * their state comes back by itself. What the policy has seen stays what it was; observations are never written again.
 * @throws LonghaulError `Sandbox.Diverged` where the world could not be rebuilt: the episode is then lost, never trained on
 */
export async function replayTurns(input: ReplayInput): Promise<void> {
  const { episode, turns, from, execute, hash } = input
  const missing = turns.slice(from)
  const unrepeatable = missing.find(({ observation }) => observation !== null && !isRepeatable(observation))
  if (unrepeatable !== undefined) {
    throw diverged('Expected only turns that ended by themselves, one was stopped half-way', {
      episode,
      turn: unrepeatable.action.turn,
      reason: unrepeatable.observation?.execution?.reason ?? null,
    })
  }
  if (from > 0) await compareTree({ ...input, hash: () => hash(from - 1) }, from - 1)
  for (const turn of missing) {
    const { action, observation } = turn
    if (observation === null) return
    if (action.command !== null) compare(episode, observation, await execute(turn, action.command))
    await compareTree({ ...input, hash: () => hash(action.turn) }, action.turn)
  }
}

/** What a turn that was stopped left behind depends on the moment, so nothing can be compared with it. */
export function isRepeatable({ execution }: ObservationRecord): boolean {
  return execution === null || (execution.reason === 'exit' && !execution.oomKilled)
}

/** @throws LonghaulError `Sandbox.Diverged` where a turn did not end as the record of it says */
export function compare(episode: string, recorded: ObservationRecord, played: TurnResult): void {
  const difference = [
    recorded.execution?.exitCode === played.exitCode ? null : 'exit code',
    ...STATE.map((part) => (recorded.state[part] === played.state[part] ? null : part)),
  ].find((part) => part !== null)
  if (difference === undefined) return
  throw diverged(`Expected the turn to end in this sandbox as its record says, its ${difference} differs`, {
    episode,
    turn: recorded.turn,
    exitCode: played.exitCode,
    was: recorded.execution?.exitCode ?? null,
  })
}

const STATE = [
  'cwd',
  'environment',
  'umask',
  'openFile',
  'windowTop',
  'submitted',
] as const satisfies readonly (keyof SandboxState)[]

/** @throws LonghaulError `Sandbox.Diverged` where the files after a turn are not those of its record; without a record all is well */
export async function compareTree(
  { store, episode, hash }: Pick<ReplayInput, 'store' | 'episode'> & { hash: () => Promise<string> },
  turn: number,
): Promise<void> {
  const recorded = await store.readRecord<TreeRecord>(episodeKeys.tree(episode, turn))
  if (recorded === null || (await hash()) === recorded.treeSha256) return
  throw diverged('Expected the turns to leave the files in this sandbox that their record says', { episode, turn })
}

/** Every so many turns. */
const TREE_EVERY = 5

/** Whether the world after a turn is worth a hash: now and then, and before the work is handed in. `next` is the command that follows,
 *  null while it is being sampled. */
export function wantsTree({ turn, next }: { turn: number; next: string | null }): boolean {
  if (turn < 0) return false
  if (next === null) return (turn + 1) % TREE_EVERY === 0
  return /^\s*submit\s*$/.test(next)
}

function diverged(message: string, details: Record<string, string | number | null>): LonghaulError {
  return new LonghaulError({ code: 'Sandbox.Diverged', message, details })
}
