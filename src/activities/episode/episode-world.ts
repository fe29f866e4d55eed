import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { ActionRecord, TreeRecord } from '../../contracts/episodes.types.ts'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import { episodeKeys } from '../../contracts/keys.ts'
import type { SandboxHandle, SandboxHost, TurnResult } from '../../contracts/sandbox.types.ts'
import { compareTree, replayTurns } from './replay-episode.ts'
import { lastRunBefore, markOf, type Turn } from './transcript.ts'

export interface EpisodeWorldInput {
  store: ArtifactStore
  host: SandboxHost
  sandbox: SandboxHandle
  episode: string
  /** The episode as its records tell it; it grows while the episode is played. */
  turns: readonly Turn[]
  fence: number
  /** Of one command. */
  timeoutMs: number
  signal: AbortSignal
  /** The sandbox may be new, or an attempt that died may have rebuilt a part of it. Else it has run every turn before. */
  mayLackTurns: boolean
  /** Told of each turn that is about to be replayed. */
  onReplay: (turn: number) => void
}

/**
 * The sandbox of an episode, bound to the episode's records. Every request names the turn that the sandbox must have run last; a
 * sandbox that has not seen the turns before refuses, and is then rebuilt from the records. A turn N > 0 therefore never runs in a
 * world without turns 0…N−1, whichever process, execution or host asks.
 */
export class EpisodeWorld {
  readonly #input: EpisodeWorldInput
  #mayLackTurns: boolean

  constructor(input: EpisodeWorldInput) {
    this.#input = input
    this.#mayLackTurns = input.mayLackTurns
  }

  /** @param maxOutputBytes of output to return
   *  @throws LonghaulError `Sandbox.Diverged`, `Sandbox.Lost` where the world could not be rebuilt */
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
   * Brings the sandbox to the last committed turn before anything else is asked of it. What the sandbox says about itself is compared
   * with the records where they hold a hash of that turn's files.
   */
  async ensureCurrent(): Promise<void> {
    const { store, episode, turns } = this.#input
    const committed = turns.filter(({ observation }) => observation !== null).length
    if (committed === 0) return
    try {
      // Asked also where there is no record to compare with: the sandbox refuses unless it holds that turn.
      const treeSha256 = await this.#treeHash(committed - 1)
      await compareTree({ store, episode, hash: async () => treeSha256 }, committed - 1)
    } catch (error) {
      const world = worldOf(error)
      if (world === null) throw error
      await this.#rebuild(world)
    }
    this.#mayLackTurns = false
  }

  /** Records the files as they are after a turn. The first record stays. Once the next turn has begun there is nothing to record. */
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

  /** @param world what the sandbox has run last, as it said itself */
  async #rebuild(world: string): Promise<void> {
    const { turns, episode, onReplay } = this.#input
    // The journal holds it, and answers when the turn is asked for.
    if (isOpenTurn(turns, world)) return
    const last = world === '-' ? -1 : turns.findIndex((turn) => isMark(turn, world))
    if (last === -1 && world !== '-') {
      throw ended('Expected the sandbox to hold turns of its episode, it holds one that the records do not have', {
        episode,
        world,
      })
    }
    // Only what ran in it can have made it forget.
    if (!this.#mayLackTurns) {
      throw ended('Expected the sandbox to hold the turns that it has run, it says that it does not', {
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

/** What a sandbox that refused has run last; null for every other error. */
function worldOf(error: unknown): string | null {
  return isLonghaulError(error) && error.code === 'Sandbox.Behind' ? String(error.details['world']) : null
}

function isMark(one: Turn, world: string): boolean {
  const { turn, token } = markOf(one)
  return world === `${turn}.${token}`
}

/** Sampled, maybe begun, and not answered in the records yet. */
function isOpenTurn(turns: readonly Turn[], world: string): boolean {
  const last = turns.at(-1)
  return last !== undefined && last.observation === null && isMark(last, world)
}
