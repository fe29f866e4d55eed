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
  /** Of the last optimizer step. */
  loss: number
  /** One object an optimizer step: the fields of `opt_step` in the trainer’s progress file. */
  metrics: Record<string, unknown>[]
}

/** In a checkpoint: one line an optimizer step. */
const METRICS = 'metrics.jsonl'

const POLL_MS = 250
/** Poll interval while another launcher works on the job. */
const MOST_POLL_MS = 2_000

/**
 * Runs a training job to its end, or finds it: committed output is returned, a living trainer is followed, a dead one is
 * continued under the next fence. Never starts a second writer on a guess; where one starts anyway the lower fence stops itself.
 * On abort the trainer is stopped and the signal's reason thrown.
 * @throws LonghaulError `Trainer.*`
 */
export function runJob(input: RunJobInput): Promise<RunJobResult> {
  return runUntilCommitted(input, readCommitted)
}

/** The same for any job. @param readResult null while what the job makes is not committed */
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

/** Null where there is nothing to follow yet; the caller looks again. */
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
      throw new LonghaulError({
        code: 'Trainer.Unavailable',
        message:
          'Expected to be the only launcher of the job: a trainer on another host is at work and cannot be asked',
        details: { job: job.jobId, host: newest.host },
      })
    case 'over': {
      const fence = newest.fence + 1
      const spec = { ...job.spec, attempt, fence }
      if (!(await claimFence({ jobDirectory: job.jobDirectory, fence, spec }))) return null
      await launchOrWithdraw(launcher, { job, fence })
      return followAttempt({ ...input, fence })
    }
  }
}

/** Withdraws the claim of a refused launch, so that no launcher waits for its attempt. Any other failure leaves the claim open. */
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

/** Whether a claim without an attempt is young enough that its launcher may still be at it. */
type ClaimWatch = (fence: number) => boolean

/**
 * By our own clock, from the moment at which the claim was first seen: file times are another machine's. A launcher that dies
 * between claim and launch costs the next one this wait, once.
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
 * From the newest claim down. A claim that was never launched says nothing about the attempt before it, which may be running: its
 * launcher was slow, and the next one died or was refused the resources that this attempt holds.
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
      // Its trainer was at work, and its launcher has forgotten it since.
      if ((await leaseHolder(jobDirectory, fence)) !== null) break
      if (mayBeLaunching(fence)) return { kind: 'starting', fence }
      continue
    }
    // The file system is shared, so silence there is the only sign; fences keep a wrong guess harmless.
    const isSilent = (await progressAge(jobDirectory, fence, Date.now())) > limits.stallMs
    if (!isSilent) return { ...state, fence }
    break
  }
  return { kind: 'over', fence: newest }
}

/** Both outputs of this very job, or null. */
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
 * What was kept of this very job, by whichever host was first; null where nothing is. Its figures come from the checkpoint that is
 * kept: another host's trainer may have come to others.
 * @throws LonghaulError `Artifact.Conflict` when another job's weights have its version
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
    message: 'Expected the weights of a version to be of one training job, they are of another',
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
