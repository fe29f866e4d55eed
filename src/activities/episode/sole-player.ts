import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { EpisodeProgress } from '../../contracts/activities.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { SandboxHandle } from '../../contracts/sandbox.types.ts'
import type { ActivityScope } from '../runtime/activity-runtime.ts'

/** How long a later attempt waits until an earlier one has stopped. Only a silent engine takes as long. */
const STOP_MS = 10_000

interface Playing {
  fence: number
  /** Aborted as soon as this attempt must not go on. */
  signal: AbortSignal
  stop: AbortController
  progress: Promise<EpisodeProgress>
}

interface Attempt {
  sandbox: Pick<SandboxHandle, 'name'>
  /** See `TurnRequest`. */
  fence: number
  scope: ActivityScope
}

type Play = (scope: ActivityScope) => Promise<EpisodeProgress>

/** @throws LonghaulError `Sandbox.Foreign` from an attempt that a later one has stopped */
export type PlayAlone = (attempt: Attempt, play: Play) => Promise<EpisodeProgress>

/**
 * Lets one attempt at a time play in a sandbox. A server whose database was restored from an older copy hands out steps that this worker
 * is playing already, and takes results for them that belong to the lost history; two attempts would then sample the same turns. An
 * attempt with a higher fence stops the one that plays; any other waits for it and returns its progress.
 */
export function createSolePlayer(): PlayAlone {
  const playing = new Map<string, Playing>()

  const begin = (name: string, { fence, scope }: Attempt, play: Play): Promise<EpisodeProgress> => {
    const stop = new AbortController()
    const signal = AbortSignal.any([scope.signal, stop.signal])
    const leave = (): void => {
      // One that did not stop in time must not take its successor away.
      if (playing.get(name) === mine) playing.delete(name)
    }
    const mine: Playing = { fence, signal, stop, progress: play({ ...scope, signal }).finally(leave) }
    playing.set(name, mine)
    return mine.progress
  }

  return async (attempt, play) => {
    const { sandbox, fence, scope } = attempt
    const name = `${scope.owner.ownerRun} ${sandbox.name}`
    for (let other = playing.get(name); other !== undefined; other = playing.get(name)) {
      scope.signal.throwIfAborted()
      if (other.fence < fence) {
        other.stop.abort(
          new LonghaulError({
            code: 'Sandbox.Foreign',
            message: 'A later attempt of the same execution plays in this sandbox',
            details: { name: sandbox.name, fence: other.fence, later: fence },
          }),
        )
        await Promise.race([other.progress.catch(() => null), sleep(STOP_MS, null, { ref: false })])
        if (playing.get(name) === other) playing.delete(name)
        continue
      }
      const progress = await Promise.race([progressUnlessStopped(other), once(scope.signal, 'abort').then(() => null)])
      if (progress !== null) return progress
    }
    scope.signal.throwIfAborted()
    return begin(name, attempt, play)
  }
}

/** Null if the attempt was cancelled or stopped: its progress then says nothing about the episode. */
async function progressUnlessStopped({ progress, signal }: Playing): Promise<EpisodeProgress | null> {
  try {
    return await progress
  } catch (error) {
    if (signal.aborted) return null
    throw error
  }
}
