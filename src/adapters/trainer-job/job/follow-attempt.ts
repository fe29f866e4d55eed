import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { LonghaulError, toLonghaulError } from '../../../contracts/errors.ts'
import { attemptDirectory, claimedAt, exitReport } from './attempt-files.ts'
import { type AttemptEnd, STOPPED, tailProgress, type TrainerProgress } from './attempt-report.ts'
import type { LaunchedJob } from './job-spec.ts'
import type { Attempt, AttemptState, Launcher } from '../launchers/launcher.types.ts'

export interface FollowAttemptInput {
  launcher: Launcher
  job: LaunchedJob
  fence: number
  onProgress?: (progress: TrainerProgress) => void
  signal: AbortSignal
  /** True for a reason that ends only the caller (a worker shutdown): the trainer goes on and is found again. @default never */
  mayOutlive?: (reason: unknown) => boolean
  /** How long a scheduler may let it wait, from its claim. @default QUEUE_MS */
  queueMs?: number
  /** How long a job may be there that its scheduler cannot start. @default BLOCKED_MS */
  blockedMs?: number
}

/** A week in the queue of a cluster: then a person has to look. */
export const QUEUE_MS = 7 * 86_400_000

/** A registry or an admission hook may be away for a moment; what lasts longer is reported, and tried again as a new attempt. */
export const BLOCKED_MS = 5 * 60_000

const SETTLE_POLL_MS = 500

/**
 * Watches one attempt until it ends, hangs, runs out of time or is aborted. A hung or late one is stopped and counts as failed.
 * Stall is measured by our clock from the moment its last progress was seen, so that clocks need not agree, and not while it
 * waits in a queue, where it has said nothing yet.
 */
export async function followAttempt(input: FollowAttemptInput): Promise<AttemptEnd> {
  const { launcher, job, fence, onProgress, signal, mayOutlive, queueMs = QUEUE_MS, blockedMs = BLOCKED_MS } = input
  const readProgress = tailProgress(join(attemptDirectory(job.jobDirectory, fence), 'progress.jsonl'))
  let startedAt = Date.now()
  let lastProgressMs = 0
  let seenAt = startedAt
  let blockedAt: number | null = null
  for (;;) {
    // Order matters: what is dead now had written everything before this read.
    const state = await lookOrTrust(input)
    for (const progress of await readProgress()) {
      onProgress?.(progress)
      if (progress.lastProgressMs === lastProgressMs) continue
      lastProgressMs = progress.lastProgressMs
      seenAt = Date.now()
    }
    if (state.kind === 'over' || state.kind === 'absent') return endOf(input, state)
    const isQueued = launcher.isElsewhere && lastProgressMs === 0
    if (isQueued) startedAt = seenAt = Date.now()
    if (signal.aborted) {
      if (!mayOutlive?.(signal.reason)) await stopSurely(input)
      throw signal.reason
    }
    const waitedMs = isQueued ? Date.now() - ((await claimedAt(job.jobDirectory, fence)) ?? Date.now()) : 0
    const blockedBy = isQueued && state.kind === 'alive' ? (state.blockedBy ?? null) : null
    blockedAt = blockedBy === null ? null : (blockedAt ?? Date.now())
    const isBlocked = blockedAt !== null && Date.now() - blockedAt >= blockedMs
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

/** A scheduler that does not answer for a while ends nothing: the progress file still says how the job fares. */
async function lookOrTrust({ launcher, job, fence }: FollowAttemptInput): Promise<AttemptState> {
  try {
    return await launcher.look({ job, fence })
  } catch (error) {
    if (toLonghaulError(error).code !== 'Trainer.Unavailable') throw error
    return { kind: 'alive' }
  }
}

function overdueBy(times: { job: LaunchedJob; startedAt: number; seenAt: number }): AttemptEnd | null {
  const { job, startedAt, seenAt } = times
  const { stallMs, timeoutMs } = job.limits
  if (Date.now() - seenAt > stallMs) {
    return { code: null, message: `no progress for ${stallMs} ms, stopped`, failure: 'Trainer.Stalled' }
  }
  if (Date.now() - startedAt > timeoutMs) return { code: null, message: `not done after ${timeoutMs} ms, stopped` }
  return null
}

function notStarted(queueMs: number): AttemptEnd {
  const hours = Math.round(queueMs / 3_600_000)
  return {
    code: null,
    message: `not started by its scheduler for ${hours} h, taken back`,
    failure: 'Trainer.NotStarted',
  }
}

function blocked(why: string): AttemptEnd {
  return { code: null, message: `its scheduler cannot start it, taken back: ${why}`, failure: 'Trainer.Unavailable' }
}

/** What the trainer reported by itself while it was being stopped: a rank that misses another one names it. */
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
  const seeLog = existsSync(log) ? `; see ${log}` : ''
  return { code, message: `the trainer is ${state.how}, without a report${seeLog}` }
}

/** No launcher may start the next attempt while this one might still write. */
async function stopSurely({ launcher, job, fence }: FollowAttemptInput): Promise<void> {
  const attempt: Attempt = { job, fence }
  if (await launcher.stop(attempt, job.limits.graceMs)) return
  throw new LonghaulError({
    code: 'Trainer.Unavailable',
    message: 'Expected the trainer to be gone after it was killed, it is still there',
    details: { job: job.jobId, fence },
  })
}
