import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { ActionRecord, TreeRecord, ObservationRecord, SandboxState } from '../../contracts/episodes.types.ts'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import { episodeKeys } from '../../contracts/keys.ts'
import type { SandboxHandle, SandboxHost, TurnResult } from '../../contracts/sandbox.types.ts'
import { lastRunBefore, markOf, type Turn } from './transcript.ts'

export interface EpisodeWorldInput {
  store: ArtifactStore
  host: SandboxHost
  sandbox: SandboxHandle
  episode: string
  /** The episode according to its records; it grows while the episode is played. */
  turns: readonly Turn[]
  fence: number
  /** Time limit of one command. */
  timeoutMs: number
  signal: AbortSignal
  /** True if the sandbox may be new, or partly rebuilt by an attempt that died; false if it has run every earlier turn. */
  mayLackTurns: boolean
  /** Called with each turn before it is replayed. */
  onReplay: (turn: number) => void
}

/**
 * An episode's sandbox, bound to the episode's records. Every request names the turn that the sandbox must have run last. A sandbox
 * that has not run the earlier turns refuses, and is then rebuilt from the records. Turn N > 0 therefore never runs in a sandbox
 * without turns 0…N−1, whichever process, execution or host requests it.
 */
export class EpisodeWorld {
  readonly #input: EpisodeWorldInput
  #mayLackTurns: boolean

  constructor(input: EpisodeWorldInput) {
    this.#input = input
    this.#mayLackTurns = input.mayLackTurns
  }

  /** @param maxOutputBytes limit on the output to return
   *  @throws LonghaulError `Sandbox.Diverged`, `Sandbox.Lost` if the sandbox could not be rebuilt */
  async run(action: ActionRecord, command: string, maxOutputBytes: number): Promise<TurnResult> {
    try {
      const result = await this.#runNow(action, command, maxOutputBytes)
      this.#mayLackTurns = false
      return result
    } catch (error) {
      const world = worldOf(error)
      if (world === null) throw error
      await this.#rebuild(world)
      this.#mayLackTurns = false
      return this.#runNow(action, command, maxOutputBytes)
    }
  }

  /**
   * Brings the sandbox to the last committed turn before any other request. The sandbox's own tree hash is compared with the record, if
   * one holds a hash of that turn's files.
   */
  async ensureCurrent(): Promise<void> {
    const { store, episode, turns } = this.#input
    const committed = turns.filter(({ observation }) => observation !== null).length
    if (committed === 0) return
    try {
      // Requested even if there is no record to compare with, because the sandbox refuses unless it holds that turn.
      const treeSha256 = await this.#treeHash(committed - 1)
      await compareTree({ store, episode, hash: async () => treeSha256 }, committed - 1)
    } catch (error) {
      const world = worldOf(error)
      if (world === null) throw error
      await this.#rebuild(world)
    }
    this.#mayLackTurns = false
  }

  /** Records the state of the files after a turn. The first record counts. Does nothing once the next turn has begun. */
  async noteTree(turn: number): Promise<void> {
    const { store, episode, turns } = this.#input
    const key = episodeKeys.tree(episode, turn)
    if ((await store.readRecord<TreeRecord>(key)) !== null) return
    let treeSha256: string
    try {
      treeSha256 = await this.#treeHash(turn)
    } catch (error) {
      const world = worldOf(error)
      if (world === null) throw error
      if (isOpenTurn(turns, world)) return
      await this.#rebuild(world)
      treeSha256 = await this.#treeHash(turn)
    }
    await store.claimRecord<TreeRecord>(key, { schema: 'longhaul.tree/1', episode, turn, treeSha256 })
  }

  #treeHash(turn: number): Promise<string> {
    const { host, sandbox, turns, signal } = this.#input
    return host.treeHash(sandbox, lastRunBefore(turns, turn + 1), signal)
  }

  #runNow({ turn, token }: ActionRecord, command: string, maxOutputBytes: number): Promise<TurnResult> {
    const { host, sandbox, turns, fence, timeoutMs, signal } = this.#input
    const after = lastRunBefore(turns, turn)
    const request = { turn, token, after, fence, command, timeoutMs, maxOutputBytes }
    return host.runTurn(sandbox, request, signal)
  }

  /** @param world the last turn that the sandbox reports to have run */
  async #rebuild(world: string): Promise<void> {
    const { turns, episode, onReplay } = this.#input
    // The journal holds it, and answers when the turn is requested.
    if (isOpenTurn(turns, world)) return
    const last = world === '-' ? -1 : turns.findIndex((turn) => isMark(turn, world))
    if (last === -1 && world !== '-') {
      throw ended('Expected the sandbox to contain only recorded turns of its episode, got one without a record', {
        episode,
        world,
      })
    }
    // Only code that ran in the sandbox can have removed its journal.
    if (!this.#mayLackTurns) {
      throw ended('Expected the sandbox to contain the turns that it has run; its runner reports that it does not', {
        episode,
        world,
      })
    }
    await replayTurns({
      ...this.#input,
      from: last + 1,
      execute: ({ action }, command) => {
        onReplay(action.turn)
        return this.#runNow(action, command, 0)
      },
      hash: (turn) => this.#treeHash(turn),
    })
  }
}

function ended(message: string, details: Record<string, string>): LonghaulError {
  return new LonghaulError({ code: 'Sandbox.Ended', message, details })
}

/**
 * Ends what an earlier attempt may still do in the sandbox. One that was cut off from the server or stood still does not know that it has
 * a successor, and would otherwise play turn by turn beside it. A sandbox that has seen a higher fence refuses the next command instead.
 */
export async function takeOver({
  host,
  sandbox,
  fence,
  signal,
}: Pick<EpisodeWorldInput, 'host' | 'sandbox' | 'fence' | 'signal'>): Promise<void> {
  try {
    await host.takeOver(sandbox, fence, signal)
  } catch (error) {
    if (!isLonghaulError(error) || error.code !== 'Sandbox.Fenced') throw error
  }
}

/** Returns the last turn that a refusing sandbox has run; null for every other error. */
function worldOf(error: unknown): string | null {
  return isLonghaulError(error) && error.code === 'Sandbox.Behind' ? String(error.details['world']) : null
}

function isMark(one: Turn, world: string): boolean {
  const { turn, token } = markOf(one)
  return world === `${turn}.${token}`
}

/** The turn was sampled, may have begun, and has no recorded observation yet. */
function isOpenTurn(turns: readonly Turn[], world: string): boolean {
  const last = turns.at(-1)
  return last !== undefined && last.observation === null && isMark(last, world)
}

export interface ReplayInput {
  store: ArtifactStore
  episode: string
  turns: readonly Turn[]
  /** The first turn that the sandbox has not run; earlier ones are not repeated. */
  from: number
  /** Runs the command of a committed turn under the turn's own token. */
  execute: (turn: Turn, command: string) => Promise<TurnResult>
  /** Hash of the sandbox's files after a turn. */
  hash: (turn: number) => Promise<string>
}

/**
 * Replays the missing turns in a sandbox: every committed command once, under its own token. Exit code, shell and tool state are
 * compared after each turn, and the tree hash wherever one was recorded. Tools that only read are run too, because they are cheap and
 * restore their state that way. Recorded observations are never rewritten.
 * @throws LonghaulError `Sandbox.Diverged` if the sandbox could not be rebuilt; the episode is then lost and never trained on
 */
export async function replayTurns(input: ReplayInput): Promise<void> {
  const { episode, turns, from, execute, hash } = input
  const missing = turns.slice(from)
  const unrepeatable = missing.find(({ observation }) => observation !== null && !isRepeatable(observation))
  if (unrepeatable !== undefined) {
    throw diverged('Expected only turns that ended by themselves, got one that was stopped before its end', {
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

/** The effects of a stopped turn depend on when it was stopped, so they cannot be compared. */
export function isRepeatable({ execution }: ObservationRecord): boolean {
  return execution === null || (execution.reason === 'exit' && !execution.oomKilled)
}

/** @throws LonghaulError `Sandbox.Diverged` if a turn did not end as its record says */
export function compare(episode: string, recorded: ObservationRecord, played: TurnResult): void {
  const difference = [
    recorded.execution?.exitCode === played.exitCode ? null : 'exit code',
    ...STATE.map((part) => (recorded.state[part] === played.state[part] ? null : part)),
  ].find((part) => part !== null)
  if (difference === undefined) return
  throw diverged(`Expected the replayed turn to end as its record says, but its ${difference} differs`, {
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

/** @throws LonghaulError `Sandbox.Diverged` if the files after a turn differ from its record; without a record nothing is compared */
export async function compareTree(
  { store, episode, hash }: Pick<ReplayInput, 'store' | 'episode'> & { hash: () => Promise<string> },
  turn: number,
): Promise<void> {
  const recorded = await store.readRecord<TreeRecord>(episodeKeys.tree(episode, turn))
  if (recorded === null || (await hash()) === recorded.treeSha256) return
  throw diverged('Expected the replayed turns to leave the files of their record', { episode, turn })
}

/** Number of turns between two tree hashes. */
const TREE_EVERY = 5

/** Returns whether the tree is hashed after a turn: at intervals, and before the submission. `next` is the following command, or
 *  null while it is being sampled. */
export function wantsTree({ turn, next }: { turn: number; next: string | null }): boolean {
  if (turn < 0) return false
  if (next === null) return (turn + 1) % TREE_EVERY === 0
  return /^\s*submit\s*$/.test(next)
}

function diverged(message: string, details: Record<string, string | number | null>): LonghaulError {
  return new LonghaulError({ code: 'Sandbox.Diverged', message, details })
}

/** Renews a lease at intervals while `work` runs. A failed renewal is ignored, because the next turn discovers the sandbox's state.
 *  While one renewal hangs, no second one starts. */
export async function renewing<T>(
  { renew, everyMs, signal }: { renew: () => Promise<unknown>; everyMs: number; signal: AbortSignal },
  work: () => Promise<T>,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  let isOver = false
  const renewLater = (): void => {
    if (isOver || signal.aborted) return
    timer = setTimeout(() => {
      if (!signal.aborted) renew().then(renewLater, renewLater)
    }, everyMs)
  }
  renewLater()
  try {
    return await work()
  } finally {
    isOver = true
    clearTimeout(timer)
  }
}
