/** Jobs of runs whose worker died: launched for real, and noted as a worker notes them. The trainer is a script that waits for TERM. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { claimFence } from '../../src/adapters/trainer-job/job/attempt-files.ts'
import { type JobOwner, whileOwned } from '../../src/adapters/trainer-job/job/job-owners.ts'
import { executionOf } from '../../src/adapters/trainer-job/job/job-spec.ts'
import type { Attempt, Launcher } from '../../src/adapters/trainer-job/launchers/launcher.types.ts'
import type { ArtifactStore } from '../../src/contracts/artifacts.types.ts'
import { runKeys } from '../../src/contracts/keys.ts'
import { sha256Hex } from '../../src/platform/hash.ts'
import { eventually } from './hang.ts'
import { exampleAttempt } from './launcher-examples.ts'
import { makeTrainingRecipe } from './training-records.ts'

export async function writeWaitingTrainer(path: string): Promise<void> {
  await writeFile(path, "#!/bin/sh\ntrap 'exit 75' TERM\nwhile :; do sleep 0.1; done\n", { mode: 0o755 })
}

/** An owner as a worker notes it, for a run of the namespace `ours` on this host. */
export function ownerOf(run: string, changes: Partial<JobOwner> = {}): JobOwner {
  const { trainer } = makeTrainingRecipe()
  const workflows = { workflowId: `train/${run}`, callerId: `train/${run}/dapo-1`, runId: 'first' }
  return { namespaceId: 'ours', run, ...workflows, host: 'here', trainer, ...changes }
}

/** A claimed attempt at a job of a run. Its names are those of no other test. */
export async function claimJob(store: ArtifactStore, run: string): Promise<Attempt> {
  const { job } = exampleAttempt({ nodes: 1, ranksPerNode: 1 })
  const jobDirectory = store.path(runKeys.job(run, 'dapo-1', 1, 0))
  const key = sha256Hex(jobDirectory)
  const jobId = `dapo-${key.slice(0, 16)}`
  await mkdir(jobDirectory, { recursive: true })
  const spec = { job_id: jobId, key, execution: executionOf(makeTrainingRecipe().trainer, undefined), fence: 1 }
  await claimFence({ jobDirectory, fence: 1, spec })
  const limits = { ...job.limits, graceMs: 10_000 }
  return { job: { ...job, artifactRoot: join(store.path('runs'), '..'), jobDirectory, jobId, key, limits }, fence: 1 }
}

/** A note without an end: its worker has died. */
export function noteForEver(input: Parameters<typeof whileOwned>[0]): void {
  void whileOwned(input, () => new Promise<never>(() => undefined))
}

/** Launches a job, and leaves it. */
export async function leaveJob(input: { store: ArtifactStore; launcher: Launcher; owner: JobOwner }): Promise<Attempt> {
  const { store, launcher, owner } = input
  const attempt = await claimJob(store, owner.run)
  noteForEver({ store, job: attempt.job, owner })
  await launcher.launch(attempt)
  await eventually(async () => {
    if ((await launcher.look(attempt)).kind !== 'alive') throw new Error('the job does not run')
  })
  return attempt
}
