import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { Context } from '@temporalio/activity'
import { findLiveAttempt, unfinishedAttempts } from '../../adapters/trainer-job/job/live-attempts.ts'
import type { Attempt, Launcher } from '../../adapters/trainer-job/launchers/launcher.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError, toLonghaulError } from '../../contracts/errors.ts'
import { waitingFor } from '../runtime/wait-board.ts'

/** How long the end of a run waits for a scheduler that does not answer. */
const PATIENCE_MS = 15 * 60_000
const AGAIN_MS = 10_000

export interface EndJobsInput {
  store: ArtifactStore
  run: string
  /** Only called if a job may still run. */
  launcher: () => Promise<Launcher>
  signal: AbortSignal
  /** @default PATIENCE_MS */
  patienceMs?: number
}

/**
 * Stops the training jobs of an ended run that no activity stopped: its worker had died, so that the server cancelled the activity
 * without it, or the scheduler did not answer. A run must end even if that fails, so the log then names what to do.
 */
export async function endJobs({ store, run, launcher, signal, patienceMs = PATIENCE_MS }: EndJobsInput): Promise<void> {
  try {
    const jobs = await unfinishedAttempts({ store, run })
    if (jobs.length === 0) return
    const using = await launcher()
    const until = performance.now() + patienceMs
    await Promise.all(jobs.map((attempts) => endJob({ run, launcher: using, attempts, until, signal })))
  } catch (error) {
    signal.throwIfAborted()
    Context.current().log.warn('the training jobs of the run could not be looked for', { run, error: String(error) })
  }
}

interface EndJobInput {
  run: string
  launcher: Launcher
  /** Of one job, the newest first. */
  attempts: Attempt[]
  /** By `performance.now`. */
  until: number
  signal: AbortSignal
}

async function endJob({ run, launcher, attempts, until, signal }: EndJobInput): Promise<void> {
  const id = attempts[0]?.job.jobId ?? ''
  const on = { kind: 'trainer', name: `job ${id} on ${hostname()}` } as const
  const { log } = Context.current()
  const mayStartUntil = performance.now() + launcher.launchMs
  await waitingFor({ doing: 'stopping a training job', on }, async ({ troubled }) => {
    for (;;) {
      try {
        const alive = await findLiveAttempt(launcher, attempts)
        // The answer to a launch may have been lost, and the scheduler lists the job a little later.
        if (alive === null || (alive === 'absent' && performance.now() >= mayStartUntil)) return
        if (alive === 'absent') {
          await sleep(launcher.pollMs, undefined, { signal })
          continue
        }
        if ('host' in alive) {
          return log.warn('a training job outlives its run: only a worker of its host can stop it', {
            run,
            job: id,
            host: alive.host,
          })
        }
        const { job, fence } = alive
        log.warn('a training job outlived its run and is stopped', { run, job: job.jobId, fence })
        if (await launcher.stop(alive, job.limits.graceMs)) return
        throw new LonghaulError({
          code: 'Trainer.Unavailable',
          message: 'Expected the trainer to be gone after it was killed, but it is still running',
        })
      } catch (error) {
        const silence = toLonghaulError(error)
        if (silence.code !== 'Trainer.Unavailable') throw error
        troubled(silence)
        if (performance.now() >= until) {
          return log.warn('a training job may outlive its run: end it by its name in its scheduler or engine', {
            run,
            job: id,
            error: silence.message,
          })
        }
      }
      await sleep(Math.min(AGAIN_MS, Math.max(0, until - performance.now())), undefined, { signal })
    }
  })
}
