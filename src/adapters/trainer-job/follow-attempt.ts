import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { LonghaulError } from '../../contracts/errors.ts'
import { attemptDirectory, exitReport } from './attempt-files.ts'
import type { AttemptEnd } from './exit-codes.ts'
import type { PreparedJob } from './job-spec.ts'
import { livenessOf, type ProcessIdentity, stopGroup } from './process-identity.ts'
import type { LaunchedProcess } from './process-launcher.ts'
import { tailProgress, type TrainerProgress } from './progress-tail.ts'

export interface FollowAttemptInput {
  job: PreparedJob
  fence: number
  identity: ProcessIdentity
  /** Null for a trainer that somebody else started: its status is not ours to read. */
  ended: LaunchedProcess['ended'] | null
  onProgress?: (progress: TrainerProgress) => void
  signal: AbortSignal
  mayOutlive?: (reason: unknown) => boolean
}

const POLL_MS = 200

/**
 * Watches one attempt until it ends, hangs, runs out of time or is aborted. A hung or late one is stopped and counts as failed.
 * Stall is measured by our clock from the moment its last progress was seen, so that clocks need not agree.
 */
export async function followAttempt(input: FollowAttemptInput): Promise<AttemptEnd> {
  const { job, fence, identity, ended, onProgress, signal, mayOutlive } = input
  const readProgress = tailProgress(join(attemptDirectory(job.jobDirectory, fence), 'progress.jsonl'))
  const startedAt = Date.now()
  let lastProgressMs = 0
  let seenAt = startedAt
  for (;;) {
    // Order matters: what is dead now had written everything before this read.
    const isAlive = (await livenessOf(identity)) === 'alive'
    for (const progress of await readProgress()) {
      onProgress?.(progress)
      if (progress.lastProgressMs === lastProgressMs) continue
      lastProgressMs = progress.lastProgressMs
      seenAt = Date.now()
    }
    if (!isAlive) return endOf(job, fence, ended)
    if (signal.aborted) {
      if (!mayOutlive?.(signal.reason)) await stopSurely(input)
      throw signal.reason
    }
    const overdue = overdueBy({ job, startedAt, seenAt })
    if (overdue !== null) {
      await stopSurely(input)
      return { code: null, message: overdue }
    }
    await pause(signal)
  }
}

function overdueBy({ job, startedAt, seenAt }: { job: PreparedJob; startedAt: number; seenAt: number }): string | null {
  const { stallMs, timeoutMs } = job.limits
  if (Date.now() - seenAt > stallMs) return `no progress for ${stallMs} ms, stopped`
  if (Date.now() - startedAt > timeoutMs) return `not done after ${timeoutMs} ms, stopped`
  return null
}

async function endOf(job: PreparedJob, fence: number, ended: LaunchedProcess['ended'] | null): Promise<AttemptEnd> {
  const report = await exitReport(job.jobDirectory, fence)
  if (report !== null) return { code: report.code, message: `${report.class}: ${report.message}` }
  const log = join(attemptDirectory(job.jobDirectory, fence), 'stdout.log')
  const status = ended === null ? null : await ended
  if (status === null) return { code: null, message: `the trainer is gone without a report; see ${log}` }
  const how = status.signal === null ? `status ${status.code}` : status.signal
  return { code: status.code, message: `ended by ${how} without a report; see ${log}` }
}

/** Nobody may start the next attempt while this one might still write. */
async function stopSurely({ job, identity }: FollowAttemptInput): Promise<void> {
  if (await stopGroup(identity, job.limits.graceMs)) return
  throw new LonghaulError({
    code: 'Trainer.Unavailable',
    message: 'Expected the trainer to be gone after SIGKILL, it is still there',
    details: { job: job.jobId, pid: identity.pid },
  })
}

async function pause(signal: AbortSignal): Promise<void> {
  await sleep(POLL_MS, undefined, { signal }).catch(() => undefined)
}
