import { hostname } from 'node:os'
import { Context } from '@temporalio/activity'
import type { Launcher } from '../../adapters/trainer-job/launchers/launcher.types.ts'
import type { LaunchedJob } from '../../adapters/trainer-job/job/job-spec.ts'
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

/** The wait is counted from the trainer's last progress, so that an idle but live process becomes visible. */
export function followJob<Result>(
  launcher: Launcher,
  { attempt, signal, beat }: ActivityScope,
  { jobId, doing }: { jobId: string; doing: string },
  run: (following: Omit<RunJobInput, 'job'>) => Promise<Result>,
): Promise<Result> {
  const on = { kind: 'trainer', name: `job ${jobId} on ${hostname()}` } as const
  let lastProgressMs = 0
  return waitingFor({ doing, on }, ({ progressed, troubled }) =>
    run({
      launcher,
      attempt,
      signal,
      onProgress: (progress) => {
        // Measured by this process's clock from when it was seen, so that clocks need not agree.
        if (progress.lastProgressMs !== lastProgressMs) progressed(Date.now())
        lastProgressMs = progress.lastProgressMs
        beat(progress)
      },
      onQueued: troubled,
      mayOutlive: isWorkerShutdown,
    }),
  )
}

/** The trainer lives in its own session. A restarted worker finds it again, so only a cancellation stops it. */
function isWorkerShutdown(): boolean {
  return Context.current().cancellationDetails?.workerShutdown === true
}

export interface HaveWindowOptions {
  launcher: Launcher
  scope: ActivityScope
  oneAtATime: Mutex
  /** Notes for whom the job runs. */
  whileOwned: <T>(job: LaunchedJob, work: () => Promise<T>) => Promise<T>
}

/**
 * Provides the reference log-probabilities for a server of a policy with a rope. Exports contain them. For a base policy the trainer
 * computes them once, because only the trainer knows what the weights give there.
 */
export async function haveWindow(
  input: WindowJobInput,
  { launcher, scope, oneAtATime, whileOwned }: HaveWindowOptions,
): Promise<WindowFile | null> {
  const found = await findWindow(input)
  if (found === null || !('job' in found)) return found
  const run = () =>
    whileOwned(found.job, () =>
      followJob(launcher, scope, { jobId: found.job.jobId, doing: WINDOW }, (following) =>
        runUntilCommitted({ job: found.job, ...following }, readWindow),
      ),
    )
  return launcher.isElsewhere ? run() : oneAtATime(run)
}

const WINDOW = 'scoring the policy beyond its native window'

export type Mutex = <T>(work: () => Promise<T>) => Promise<T>

/** One job at a time on this machine, because two would halve each other's speed and double the memory. */
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
