import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isLonghaulError, LonghaulError } from '../../../contracts/errors.ts'
import type { ArtifactStore } from '../../../contracts/artifacts.types.ts'
import type { PolicyRef } from '../../../contracts/policy.types.ts'
import {
  claimFence,
  exitReport,
  highestFence,
  leaseHolder,
  NOT_LAUNCHED,
  progressAge,
  withdrawClaim,
} from './attempt-files.ts'
import { type AttemptEnd, FENCED, failureOf } from './attempt-report.ts'
import { followAttempt, type FollowAttemptInput } from './follow-attempt.ts'
import type { LaunchedJob, PreparedJob } from './job-spec.ts'
import type { Attempt, Launcher } from '../launchers/launcher.types.ts'
import { committedManifest, MANIFEST } from './policy-directory.ts'

export interface RunJobInput<Job extends LaunchedJob = PreparedJob> extends Omit<FollowAttemptInput, 'job' | 'fence'> {
  job: Job
  /** Attempt number of the caller, for the trainer's records. */
  attempt: number
}

export interface RunJobResult {
  policy: PolicyRef
  /** Optimizer steps of this job. */
  steps: number
  /** Loss of the last optimizer step. */
  loss: number
  /** One object per optimizer step with the fields of `opt_step` in the trainer’s progress file. */
  metrics: Record<string, unknown>[]
}

/** File in a checkpoint with one line per optimizer step. */
const METRICS = 'metrics.jsonl'

const POLL_MS = 250
/** Maximum poll interval while another launcher runs the job. */
const MOST_POLL_MS = 2_000

/**
 * Runs a training job to its end. Committed output is returned, a running trainer is followed, and a dead one is continued under the
 * next fence. It never deliberately starts a second writer. If a second one starts anyway, the writer with the lower fence stops
 * itself. On abort the trainer is stopped and the signal's reason is thrown.
 * @throws LonghaulError `Trainer.*`
 */
export function runJob(input: RunJobInput): Promise<RunJobResult> {
  return runUntilCommitted(input, readCommitted)
}

/** The same for any kind of job. @param readResult returns null until the job's output is committed */
export async function runUntilCommitted<Job extends LaunchedJob, Result>(
  input: RunJobInput<Job>,
  readResult: (job: Job) => Promise<Result | null>,
): Promise<Result> {
  const { job, signal } = input
  const claims = watchClaims(input.launcher)
  for (;;) {
    signal.throwIfAborted()
    const result = await readResult(job)
    if (result !== null) return result
    const end = await runAttempt(input, claims)
    if (end === null || end.code === FENCED) continue
    if (end.code !== 0) throw failureOf(end, { job: job.jobId })
    const committed = await readResult(job)
    if (committed !== null) return committed
    throw failureOf({ code: null, message: 'exit 0 without committed output' }, { job: job.jobId })
  }
}

/** Returns null if there is no attempt to follow yet; the caller looks again. */
async function runAttempt(input: RunJobInput<LaunchedJob>, claims: ClaimWatch): Promise<AttemptEnd | null> {
  const { job, launcher, attempt } = input
  const newest = await newestAttempt(input, claims)
  switch (newest.kind) {
    case 'alive':
      return followAttempt({ ...input, fence: newest.fence })
    case 'starting':
      await sleep(Math.max(POLL_MS, Math.min(launcher.pollMs, MOST_POLL_MS)))
      return null
    case 'unknown':
      // Not an error: twenty attempts would end the run before a trainer that died with its host has been silent for long. This one
      // ends with that trainer's output, or with its silence.
      input.onQueued?.(outOfReach(job, newest.host))
      await sleep(Math.max(POLL_MS, Math.min(launcher.pollMs, MOST_POLL_MS)))
      return null
    case 'over': {
      const fence = newest.fence + 1
      const spec = { ...job.spec, attempt, fence }
      if (!(await claimFence({ jobDirectory: job.jobDirectory, fence, spec }))) return null
      await launchOrWithdraw(launcher, { job, fence })
      return followAttempt({ ...input, fence })
    }
  }
}

function outOfReach({ jobId, limits }: LaunchedJob, host: string): LonghaulError {
  return new LonghaulError({
    code: 'Trainer.Unavailable',
    message: `Expected to be the only launcher of the job: a trainer on another host is running and cannot be queried; it counts as dead once it has been silent for ${limits.stallMs / 1000} s`,
    details: { job: jobId, host },
  })
}

/** Withdraws the claim of a refused launch, so that no launcher waits for its attempt. After any other failure the claim stays open,
 *  because the attempt may be running. */
async function launchOrWithdraw(launcher: Launcher, attempt: Attempt): Promise<void> {
  try {
    await launcher.launch(attempt)
  } catch (error) {
    if (isLonghaulError(error) && error.details['refused'] === true) {
      await withdrawClaim({ jobDirectory: attempt.job.jobDirectory, fence: attempt.fence, message: error.message })
    }
    throw error
  }
}

type NewestAttempt = { fence: number } & ({ kind: 'over' | 'alive' | 'starting' } | { kind: 'unknown'; host: string })

/** Returns whether a claim without an attempt is so recent that its launcher may still be starting it. */
type ClaimWatch = (fence: number) => boolean

/**
 * Measures a claim's age by this process's clock from when the claim was first seen, because file times come from another machine. If a
 * launcher dies between claim and launch, the next one waits this long once.
 */
function watchClaims({ launchMs }: Launcher): ClaimWatch {
  const seenAt = new Map<number, number>()
  return (fence) => {
    const now = performance.now()
    const since = seenAt.get(fence) ?? now
    seenAt.set(fence, since)
    return now - since < launchMs
  }
}

/**
 * Searches from the newest claim downwards. A claim that was never launched says nothing about the previous attempt, which may be
 * running: its launcher was slow, and the next launcher died or was refused the resources that this attempt holds.
 */
async function newestAttempt(
  { job, launcher }: RunJobInput<LaunchedJob>,
  mayBeLaunching: ClaimWatch,
): Promise<NewestAttempt> {
  const { jobDirectory, limits } = job
  const newest = await highestFence(jobDirectory)
  for (let fence = newest; fence > 0; fence--) {
    const state = await launcher.look({ job, fence })
    if (state.kind === 'alive') return { kind: 'alive', fence }
    const report = await exitReport(jobDirectory, fence)
    if (report?.class === NOT_LAUNCHED) continue
    if (report !== null || state.kind === 'over') break
    if (state.kind === 'absent') {
      // The attempt's trainer had started, but its launcher no longer knows it.
      if ((await leaseHolder(jobDirectory, fence)) !== null) break
      if (mayBeLaunching(fence)) return { kind: 'starting', fence }
      continue
    }
    // On a shared file system, silence is the only sign of death. Fences make a wrong guess harmless.
    const isSilent = (await progressAge(jobDirectory, fence)) > limits.stallMs
    if (!isSilent) return { ...state, fence }
    break
  }
  return { kind: 'over', fence: newest }
}

/** Returns both outputs of exactly this job, or null. */
async function readCommitted(job: PreparedJob): Promise<RunJobResult | null> {
  const [checkpoint, policy] = await Promise.all([
    committedManifest(job.checkpoint.directory),
    committedManifest(job.policy.directory),
  ])
  if (checkpoint?.manifest['key'] !== job.key || policy?.manifest['key'] !== job.key) return null
  const globalStep = Number(checkpoint.manifest['global_step'])
  return resultOf(job, {
    metrics: await readFile(join(job.checkpoint.directory, METRICS), 'utf8'),
    policy: {
      version: job.policy.version,
      uri: job.policy.uri,
      manifestSha256: policy.sha256,
      globalStep,
      checkpointUri: job.checkpoint.uri,
      checkpointSha256: checkpoint.sha256,
    },
  })
}

/**
 * Returns the stored output of exactly this job, from whichever host stored it first; null if there is none. The figures are read from
 * the stored checkpoint, because another host's trainer may have computed different ones.
 * @throws LonghaulError `Artifact.Conflict` if the version holds the weights of another job
 */
export async function readKept({ weights }: ArtifactStore, job: PreparedJob): Promise<RunJobResult | null> {
  const policy = await weights.kept(job.policy.version)
  if (policy === null) return null
  const [manifest, metrics] = await Promise.all(
    [MANIFEST, METRICS].map((name) => weights.readFile({ policy, part: 'checkpoint', name })),
  )
  const { key = null } = JSON.parse(manifest ? Buffer.from(manifest).toString('utf8') : '{}') as { key?: string }
  if (key === job.key && metrics !== null && metrics !== undefined) {
    return resultOf(job, { policy, metrics: Buffer.from(metrics).toString('utf8') })
  }
  throw new LonghaulError({
    code: 'Artifact.Conflict',
    message: 'Expected the weights of a version to come from one training job, but they come from another',
    details: { policy: policy.version, job: job.key, stored: key },
  })
}

function resultOf(job: PreparedJob, { policy, metrics: text }: { policy: PolicyRef; metrics: string }): RunJobResult {
  const metrics = parseMetrics(text)
  return {
    policy,
    steps: policy.globalStep - job.globalStep,
    loss: Number(metrics.at(-1)?.['loss'] ?? Number.NaN),
    metrics,
  }
}

function parseMetrics(text: string): Record<string, unknown>[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}
