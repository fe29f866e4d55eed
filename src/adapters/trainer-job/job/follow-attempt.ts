import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { LonghaulError, toLonghaulError } from '../../../contracts/errors.ts'
import { tailOf } from '../../../platform/files.ts'
import { attemptDirectory, claimAge, exitReport } from './attempt-files.ts'
import { type AttemptEnd, STOPPED, tailProgress, type TrainerProgress } from './attempt-report.ts'
import type { LaunchedJob } from './job-spec.ts'
import type { Attempt, AttemptState, Launcher } from '../launchers/launcher.types.ts'

export interface FollowAttemptInput {
  launcher: Launcher
  job: LaunchedJob
  fence: number
  onProgress?: (progress: TrainerProgress) => void
  /** Called at each look before the trainer's first progress, with why it has not started: the queue's reason, an obstacle, or a
   *  scheduler that does not answer. Null if nothing is known. */
  onQueued?: (why: LonghaulError | null) => void
  signal: AbortSignal
  /** Returns true for an abort reason that ends only the caller (a worker shutdown). The trainer then continues and is found again.
   *  @default never */
  mayOutlive?: (reason: unknown) => boolean
  /** Maximum time in the scheduler's queue, counted from the claim. @default QUEUE_MS */
  queueMs?: number
  /** Maximum time for which the scheduler may be unable to start the job. @default BLOCKED_MS */
  blockedMs?: number
}

/** After a week in a cluster's queue, an operator has to look. */
export const QUEUE_MS = 7 * 86_400_000

/** A registry or an admission hook may be unavailable for a moment. A longer outage is reported, and a new attempt is started. */
export const BLOCKED_MS = 5 * 60_000

const SETTLE_POLL_MS = 500

/**
 * Watches one attempt until it ends, hangs, exceeds its time or is aborted. An attempt that hangs or exceeds its time is stopped and
 * counts as failed. Stalls are measured by this process's monotonic clock from the moment its last progress was seen, so that clocks need
 * not agree, and one that is set does not end a job that trains. Time in a queue does not count, because the trainer has reported nothing yet.
 */
export async function followAttempt(input: FollowAttemptInput): Promise<AttemptEnd> {
  const { launcher, job, fence, onProgress, onQueued, signal, mayOutlive } = input
  const { queueMs = QUEUE_MS, blockedMs = BLOCKED_MS } = input
  const readProgress = tailProgress(join(attemptDirectory(job.jobDirectory, fence), 'progress.jsonl'))
  let startedAt = performance.now()
  let lastProgressMs = 0
  let seenAt = startedAt
  let blockedAt: number | null = null
  const claimedAt = startedAt - (await claimAge(job.jobDirectory, fence))
  for (;;) {
    // The order matters: a process that is dead now had written everything before the read below.
    const { state, silence } = await lookOrTrust(input)
    for (const progress of await readProgress()) {
      onProgress?.(progress)
      if (progress.lastProgressMs === lastProgressMs) continue
      lastProgressMs = progress.lastProgressMs
      seenAt = performance.now()
    }
    if (state.kind === 'over' || state.kind === 'absent') return endOf(input, state)
    const isQueued = launcher.isElsewhere && lastProgressMs === 0
    if (isQueued) {
      startedAt = seenAt = performance.now()
      onQueued?.(silence ?? notStartedYet(state))
    }
    if (signal.aborted) {
      if (!mayOutlive?.(signal.reason)) await stopSurely(input)
      throw signal.reason
    }
    const waitedMs = isQueued ? performance.now() - claimedAt : 0
    const blockedBy = isQueued && state.kind === 'alive' ? (state.blockedBy ?? null) : null
    blockedAt = blockedBy === null ? null : (blockedAt ?? performance.now())
    const isBlocked = blockedAt !== null && performance.now() - blockedAt >= blockedMs
    const overdue =
      (isBlocked ? blocked(blockedBy ?? '') : null) ??
      (waitedMs > queueMs ? notStarted(queueMs) : overdueBy({ job, startedAt, seenAt }))
    if (overdue !== null) {
      await stopSurely(input)
      return (await lastWord(input, overdue.message)) ?? overdue
    }
    await sleep(launcher.pollMs, undefined, { signal }).catch(() => undefined)
  }
}

interface Look {
  state: AttemptState
  /** Why the scheduler could not be asked. */
  silence: LonghaulError | null
}

/** Asks the launcher. If a scheduler does not answer for a while, the attempt continues, because its progress file still shows its
 *  state. */
async function lookOrTrust({ launcher, job, fence }: FollowAttemptInput): Promise<Look> {
  try {
    return { state: await launcher.look({ job, fence }), silence: null }
  } catch (error) {
    const silence = toLonghaulError(error)
    if (silence.code !== 'Trainer.Unavailable') throw error
    return { state: { kind: 'alive' }, silence }
  }
}

function notStartedYet(state: AttemptState): LonghaulError | null {
  const why = state.kind === 'alive' ? (state.blockedBy ?? state.queuedBy) : undefined
  if (why === undefined) return null
  return new LonghaulError({ code: 'Trainer.NotStarted', message: `Expected the training job to start: ${why}` })
}

function overdueBy(times: { job: LaunchedJob; startedAt: number; seenAt: number }): AttemptEnd | null {
  const { job, startedAt, seenAt } = times
  const { stallMs, timeoutMs } = job.limits
  if (performance.now() - seenAt > stallMs) {
    return { code: null, message: `no progress for ${stallMs} ms, stopped`, failure: 'Trainer.Stalled' }
  }
  const playedMs = performance.now() - startedAt
  if (playedMs > timeoutMs) return { code: null, message: `not done after ${timeoutMs} ms, stopped` }
  return null
}

function notStarted(queueMs: number): AttemptEnd {
  const hours = Math.round(queueMs / 3_600_000)
  return {
    code: null,
    message: `not started by its scheduler for ${hours} h, withdrawn`,
    failure: 'Trainer.NotStarted',
  }
}

function blocked(why: string): AttemptEnd {
  return { code: null, message: `its scheduler cannot start it, withdrawn: ${why}`, failure: 'Trainer.Unavailable' }
}

/** Returns the trainer's own report if it wrote one while being stopped: a rank that misses another one names it. */
async function lastWord({ job, fence }: FollowAttemptInput, why: string): Promise<AttemptEnd | null> {
  const report = await exitReport(job.jobDirectory, fence)
  if (report === null || report.code === STOPPED) return null
  return { code: report.code, message: `${report.class}: ${report.message} (${why})` }
}

async function endOf(
  { launcher, job, fence }: FollowAttemptInput,
  state: Extract<AttemptState, { kind: 'over' | 'absent' }>,
): Promise<AttemptEnd> {
  for (const until = Date.now() + launcher.settleMs; ; ) {
    const report = await exitReport(job.jobDirectory, fence)
    if (report !== null) return { code: report.code, message: `${report.class}: ${report.message}` }
    if (Date.now() >= until) break
    await sleep(SETTLE_POLL_MS)
  }
  const log = join(attemptDirectory(job.jobDirectory, fence), 'stdout.log')
  const code = state.kind === 'over' ? state.code : null
  const seeLog = existsSync(log) ? `; its log ends with ${JSON.stringify(await lastWords(log))}: ${log}` : ''
  return { code, message: `the trainer is ${state.how}, without a report${seeLog}` }
}

/** Longest text of a log that a message repeats. */
const MOST_CHARACTERS = 500

/** Returns the last lines. An interpreter or a package that the machine lacks is named there and nowhere else, above what the
 *  scheduler prints about the end. */
async function lastWords(log: string): Promise<string> {
  return (await tailOf(log, 5)).trim().slice(-MOST_CHARACTERS)
}

/** Stops the attempt for certain. No launcher may start the next attempt while this one might still write. */
async function stopSurely({ launcher, job, fence }: FollowAttemptInput): Promise<void> {
  const attempt: Attempt = { job, fence }
  if (await launcher.stop(attempt, job.limits.graceMs)) return
  throw new LonghaulError({
    code: 'Trainer.Unavailable',
    message: 'Expected the trainer to be gone after it was killed, but it is still running',
    details: { job: job.jobId, fence },
  })
}
