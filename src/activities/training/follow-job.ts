import { hostname } from 'node:os'
import { Context } from '@temporalio/activity'
import type { Launcher } from '../../adapters/trainer-job/launchers/launcher.types.ts'
import { type RunJobInput, runUntilCommitted } from '../../adapters/trainer-job/job/run-job.ts'
import {
  findWindow,
  readWindow,
  type WindowFile,
  type WindowJobInput,
} from '../../adapters/trainer-job/job/window-job.ts'
import { createSlots } from '../../platform/limiter.ts'
import type { ActivityScope } from '../runtime/activity-runtime.ts'
import { waitingFor } from '../runtime/wait-board.ts'

/** The wait counts from the trainer's last progress, so that a process that is alive and idle shows. */
export function followJob<Result>(
  launcher: Launcher,
  { attempt, signal, beat }: ActivityScope,
  { jobId, doing }: { jobId: string; doing: string },
  run: (following: Omit<RunJobInput, 'job'>) => Promise<Result>,
): Promise<Result> {
  const on = { kind: 'trainer', name: `job ${jobId} on ${hostname()}` } as const
  let lastProgressMs = 0
  return waitingFor({ doing, on }, ({ progressed }) =>
    run({
      launcher,
      attempt,
      signal,
      onProgress: (progress) => {
        // By our clock, from the moment it was seen: clocks need not agree.
        if (progress.lastProgressMs !== lastProgressMs) progressed(Date.now())
        lastProgressMs = progress.lastProgressMs
        beat(progress)
      },
      mayOutlive: isWorkerShutdown,
    }),
  )
}

/** The trainer lives in its own session: a worker that restarts finds it again, so only a cancel stops it. */
function isWorkerShutdown(): boolean {
  return Context.current().cancellationDetails?.workerShutdown === true
}

/**
 * What a server of a policy with a rope is held against. Exports have it; of a base policy the trainer computes it once, because
 * nothing but the trainer knows what the weights say there.
 */
export async function haveWindow(
  input: WindowJobInput,
  { launcher, scope, oneAtATime }: { launcher: Launcher; scope: ActivityScope; oneAtATime: Mutex },
): Promise<WindowFile | null> {
  const found = await findWindow(input)
  if (found === null || !('job' in found)) return found
  const run = () =>
    followJob(launcher, scope, { jobId: found.job.jobId, doing: WINDOW }, (following) =>
      runUntilCommitted({ job: found.job, ...following }, readWindow),
    )
  return launcher.isElsewhere ? run() : oneAtATime(run)
}

const WINDOW = 'scoring the policy beyond its native window'

export type Mutex = <T>(work: () => Promise<T>) => Promise<T>

/** One job at a time on this machine: two would halve each other's speed and double the memory. */
export function createMutex(): Mutex {
  const machine = createSlots(1)
  return async (work) => {
    const begun = Promise.withResolvers<void>()
    const on = { kind: 'trainer', name: `this machine, ${hostname()}` } as const
    const [result] = await Promise.all([
      machine.use(() => {
        begun.resolve()
        return work()
      }),
      waitingFor({ doing: 'waiting for another training job to end', on }, () => begun.promise),
    ])
    return result
  }
}
