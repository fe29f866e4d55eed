import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { ArtifactStore } from '../../../contracts/artifacts.types.ts'
import { runKeys } from '../../../contracts/keys.ts'
import { namesIn } from '../../../platform/files.ts'
import type { Attempt, Launcher } from '../launchers/launcher.types.ts'
import { exitReport, highestFence, leaseHolder, NOT_LAUNCHED, progressAge, specPath } from './attempt-files.ts'
import type { LaunchedJob } from './job-spec.ts'

/** The attempts at a run's jobs that may still run, by their files alone: the newest of each job that has left no report, and earlier
 *  ones that it may have followed without being launched. */
export async function unfinishedAttempts({ store, run }: { store: ArtifactStore; run: string }): Promise<Attempt[][]> {
  const jobs = await Promise.all(
    (await jobDirectories(store, run)).map((directory) => newestAttempts(store, directory, { withReported: false })),
  )
  return jobs.filter((attempts) => attempts.length > 0)
}

/**
 * @param attempts those of one job, the newest first
 * @returns the attempt, or the host where it runs and cannot be queried; `absent` if none of them is known, but the newest may still be
 * starting; null if none of them runs
 * @throws LonghaulError `Trainer.Unavailable` if the scheduler or engine does not answer
 */
export async function findLiveAttempt(
  launcher: Launcher,
  attempts: readonly Attempt[],
): Promise<Attempt | { host: string } | 'absent' | null> {
  for (const attempt of attempts) {
    const { jobDirectory, limits } = attempt.job
    const state = await launcher.look(attempt)
    if (state.kind === 'alive') return attempt
    if (state.kind === 'unknown') {
      const isSilent = (await progressAge(jobDirectory, attempt.fence)) > limits.stallMs
      return isSilent ? null : { host: state.host }
    }
    if (state.kind === 'over' || (await hasBegun(jobDirectory, attempt.fence))) return null
  }
  return 'absent'
}

async function hasBegun(jobDirectory: string, fence: number): Promise<boolean> {
  return (await leaseHolder(jobDirectory, fence)) !== null || (await exitReport(jobDirectory, fence)) !== null
}

/**
 * The launched attempts at a job that its launcher is asked about when nobody has the job any more: beside those without a report the
 * newest with one. That a trainer has reported its end does not say that its process has ended (one that hangs as it exits), nor that its
 * scheduler has not started it again.
 */
export function launchedAttempts(store: ArtifactStore, jobDirectory: string): Promise<Attempt[]> {
  return newestAttempts(store, jobDirectory, { withReported: true })
}

/** The newest first: those without a report, and with `withReported` the newest one that has a report. */
async function newestAttempts(
  store: ArtifactStore,
  jobDirectory: string,
  { withReported }: { withReported: boolean },
): Promise<Attempt[]> {
  const attempts: Attempt[] = []
  for (let fence = await highestFence(jobDirectory); fence > 0; fence--) {
    const report = await exitReport(jobDirectory, fence)
    if (report?.class === NOT_LAUNCHED) continue
    if (report !== null && !withReported) break
    const job = await jobOf(store, jobDirectory, fence)
    if (job !== null) attempts.push({ job, fence })
    if (report !== null) break
  }
  return attempts
}

/** `RUN/STAGE/iterations/NUMBER/job-SLICE` */
async function jobDirectories(store: ArtifactStore, run: string): Promise<string[]> {
  const root = store.path(dirname(dirname(dirname(dirname(runKeys.job(run, 'stage', 1, 0))))))
  const below = async (folders: string[], wanted = /./): Promise<string[]> => {
    const found = await Promise.all(
      folders.map(async (folder) =>
        (await namesIn(folder, { orFile: true })).filter((name) => wanted.test(name)).map((name) => join(folder, name)),
      ),
    )
    return found.flat()
  }
  const stages = (await below([root])).map((stage) => join(stage, 'iterations'))
  return below(await below(stages), /^job-\d+$/)
}

/** The fields of a spec that a launcher needs to find its attempt again. */
interface KeptSpec {
  key?: string
  job_id?: string
  execution?: {
    nodes?: number
    ranks_per_node?: number
    device?: 'cpu' | 'cuda'
    timeout_s?: number
    stall_s?: number
    grace_s?: number
  }
}

/** Null if the claim was never completed, so that nothing was launched by it. */
async function jobOf(store: ArtifactStore, jobDirectory: string, fence: number): Promise<LaunchedJob | null> {
  const text = await readFile(specPath(jobDirectory, fence), 'utf8').catch(() => '')
  const spec = parse(text)
  const { key, job_id: jobId, execution = {} } = spec ?? {}
  if (spec === null || key === undefined || jobId === undefined) return null
  const {
    nodes = 1,
    ranks_per_node: ranksPerNode = 1,
    device = 'cpu',
    timeout_s = 0,
    stall_s = 0,
    grace_s = 0,
  } = execution
  return {
    key,
    jobId,
    jobDirectory,
    spec: { ...spec },
    artifactRoot: dirname(store.path('runs')),
    layout: { nodes, ranksPerNode, device },
    limits: { timeoutMs: timeout_s * 1000, stallMs: stall_s * 1000, graceMs: grace_s * 1000 },
  }
}

function parse(text: string): KeptSpec | null {
  try {
    return JSON.parse(text) as KeptSpec
  } catch {
    return null
  }
}
