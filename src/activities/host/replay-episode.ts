import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { ObservationRecord, SandboxState, TreeRecord } from '../../contracts/episodes.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { episodeKeys } from '../../contracts/keys.ts'
import type { SandboxHandle, SandboxHost, TurnResult } from '../../contracts/sandbox.types.ts'
import type { Turn } from './transcript.ts'

export interface ReplayInput {
  store: ArtifactStore
  host: SandboxHost
  sandbox: SandboxHandle
  episode: string
  turns: readonly Turn[]
  /** Runs the command of a committed turn under the turn's own token. */
  execute: (turn: Turn, command: string) => Promise<TurnResult>
  signal: AbortSignal
}

/**
 * Rebuilds a lost sandbox in a fresh one: every committed command once, under its own token, with exit code, shell and tool state
 * compared after each and the tree hash wherever one was recorded. Tools that only look are played too: they are cheap, and so
 * their state comes back by itself. What the policy has seen stays what it was; observations are never written again.
 * @throws LonghaulError `Sandbox.Diverged` where the world could not be rebuilt: the episode is then lost, never trained on
 */
export async function replayEpisode(input: ReplayInput): Promise<void> {
  const { episode, turns } = input
  const unrepeatable = turns.find(({ observation }) => observation !== null && !isRepeatable(observation))
  if (unrepeatable !== undefined) {
    throw diverged('Expected only turns that ended by themselves, one was stopped half-way', {
      episode,
      turn: unrepeatable.action.turn,
      reason: unrepeatable.observation?.execution?.reason ?? null,
    })
  }
  for (const turn of turns) {
    const { action, observation } = turn
    if (observation === null) return
    if (action.command !== null) {
      compare(episode, observation, await input.execute(turn, action.command))
    }
    await compareTree(input, action.turn)
  }
}

/** What a turn that was stopped left behind depends on the moment, so nothing can be compared with it. */
function isRepeatable({ execution }: ObservationRecord): boolean {
  return execution === null || (execution.reason === 'exit' && !execution.oomKilled)
}

function compare(episode: string, recorded: ObservationRecord, played: TurnResult): void {
  const difference = [
    recorded.execution?.exitCode === played.exitCode ? null : 'exit code',
    ...STATE.map((part) => (recorded.state[part] === played.state[part] ? null : part)),
  ].find((part) => part !== null)
  if (difference === undefined) return
  throw diverged(`Expected the replayed turn to end as it did before, its ${difference} differs`, {
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

async function compareTree({ store, host, sandbox, episode, signal }: ReplayInput, turn: number): Promise<void> {
  const recorded = await store.readRecord<TreeRecord>(episodeKeys.tree(episode, turn))
  if (recorded === null) return
  const treeSha256 = await host.treeHash(sandbox, signal)
  if (treeSha256 === recorded.treeSha256) return
  throw diverged('Expected the replayed turns to leave the files that they left before', { episode, turn })
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

/** Notes what the world is after a turn. The first note stays; a sandbox that is lost meanwhile is the next turn's to report. */
export async function recordTree(
  { store, host, sandbox, episode, signal }: Omit<ReplayInput, 'turns' | 'execute'>,
  turn: number,
): Promise<void> {
  const key = episodeKeys.tree(episode, turn)
  if ((await store.readRecord<TreeRecord>(key)) !== null) return
  const treeSha256 = await host.treeHash(sandbox, signal)
  await store.claimRecord<TreeRecord>(key, { schema: 'longhaul.tree/1', episode, turn, treeSha256 })
}

function diverged(message: string, details: Record<string, string | number | null>): LonghaulError {
  return new LonghaulError({ code: 'Sandbox.Diverged', message, details })
}
