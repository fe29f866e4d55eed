/** The end of a run whose training job nobody follows any more: its worker died, and the server cancelled the activity without it. */
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, beforeEach, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { inActivity } from '../../../test/support/activity-context.ts'
import { useEnvironment } from '../../../test/support/environment.ts'
import { type FakeCluster, startFakeCluster, until } from '../../../test/support/fake-cluster.ts'
import { exampleAttempt, exampleOptions } from '../../../test/support/launcher-examples.ts'
import { createDirectoryStore } from '../../adapters/artifacts/directory-store.ts'
import { attemptDirectory, claimFence, withdrawClaim } from '../../adapters/trainer-job/job/attempt-files.ts'
import { executionOf } from '../../adapters/trainer-job/job/job-spec.ts'
import { createKubernetesLauncher } from '../../adapters/trainer-job/launchers/kubernetes-launcher.ts'
import type { Attempt, Launcher } from '../../adapters/trainer-job/launchers/launcher.types.ts'
import { createSlurmLauncher } from '../../adapters/trainer-job/launchers/slurm-launcher.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { runKeys } from '../../contracts/keys.ts'
import { makeTrainingRecipe } from '../../../test/support/training-records.ts'
import { activity } from '../runtime/activity-runtime.ts'
import { type EndJobsInput, endJobs } from './end-jobs.ts'

const pathBefore = process.env['PATH']
const root = await mkdtemp(join(tmpdir(), 'end-jobs-'))
useEnvironment({ after })
after(() => rm(root, { recursive: true, force: true }))

let cluster: FakeCluster
let store: ArtifactStore
let home: string
let count = 0

beforeEach(async () => {
  home = join(root, String(++count))
  process.env['PATH'] = pathBefore
  cluster = await startFakeCluster(home)
  process.env['PATH'] = cluster.path
  store = createDirectoryStore({ root: join(home, 'store') })
})

const slurm = (launchMs = 0): Launcher =>
  createSlurmLauncher({ options: null, command: { python: 'python3' }, pollMs: 10, settleMs: 10, launchMs })
const kubernetes = (): Launcher => ({
  ...createKubernetesLauncher({ options: exampleOptions }),
  pollMs: 10,
  launchMs: 0,
})

/** A claimed attempt at a job of a run, with the spec that `prepareJob` writes. */
async function claim(run: string, { iteration = 1, fence = 1 } = {}): Promise<Attempt> {
  const { job } = exampleAttempt({ nodes: 1, ranksPerNode: 1 })
  const jobDirectory = store.path(runKeys.job(run, 'dapo-1', iteration, 0))
  const jobId = `${job.jobId}-${run}`
  await mkdir(jobDirectory, { recursive: true })
  const { trainer } = makeTrainingRecipe()
  const spec = { job_id: jobId, key: job.key, execution: executionOf(trainer, undefined), fence }
  assert.equal(await claimFence({ jobDirectory, fence, spec }), true)
  return { job: { ...job, jobDirectory, jobId }, fence }
}

function end(run: string, launcher: Launcher, changes: Partial<EndJobsInput> = {}): Promise<void> {
  const body = activity((_: null, { signal }) =>
    endJobs({ store, run, launcher: async () => launcher, signal, ...changes }),
  )
  return inActivity(() => body(null))
}

const states = async (): Promise<string[]> => (await cluster.jobs()).map(({ state }) => state)

for (const [name, create, gone] of [
  ['Slurm', slurm, ['CANCELLED', 'RUNNING']],
  ['Kubernetes', kubernetes, ['RUNNING']],
] as const) {
  test(`${name}: the job of an ended run is stopped, that of another run is not`, async () => {
    for (const run of ['ended', 'other']) await create().launch(await claim(run))
    for (const { id } of await cluster.jobs()) await cluster.setState(id, 'RUNNING')
    await end('ended', create())
    assert.deepEqual(await states(), gone)
    const [left] = (await cluster.jobs()).filter(({ state }) => state === 'RUNNING')
    assert.ok(left !== undefined)
  })
}

test('a live attempt before a claim that was never launched is stopped', async () => {
  await slurm().launch(await claim('run'))
  await claim('run', { fence: 2 })
  const { job } = await claim('run', { fence: 3 })
  await withdrawClaim({ jobDirectory: job.jobDirectory, fence: 3, message: 'refused' })
  await end('run', slurm())
  assert.deepEqual(await states(), ['CANCELLED'])
})

test('nothing is asked about attempts that have ended, were withdrawn or never existed', async () => {
  const { job } = await claim('run')
  await writeFile(join(attemptDirectory(job.jobDirectory, 1), 'exit.json'), '{"code":0,"class":"done","message":""}')
  const withdrawn = await claim('run', { iteration: 2 })
  const { jobDirectory } = withdrawn.job
  await withdrawClaim({ jobDirectory, fence: 1, message: 'refused' })
  await writeFile(join(dirname(jobDirectory), 'ledger.json'), '{}')
  for (const run of ['run', 'none']) {
    await end(run, slurm(), { launcher: () => Promise.reject(new Error('nobody may ask')) })
  }
  assert.equal(await cluster.calls('squeue'), 0)
})

test('a job that its scheduler lists only later, because the answer to its launch was lost, is stopped', async () => {
  const attempt = await claim('run')
  const ending = end('run', slurm(60_000))
  await until(async () => (await cluster.calls('squeue')) > 2)
  await slurm().launch(attempt)
  await ending
  assert.deepEqual(await states(), ['CANCELLED'])
})

test('a scheduler that does not answer is asked again, and keeps a run from ending only for a while', async () => {
  await slurm().launch(await claim('run'))
  const squeue = join(home, 'bin', 'squeue')
  await rm(squeue)
  await end('run', slurm(), { patienceMs: 200 })
  assert.deepEqual(await states(), ['PENDING'])
  const ending = end('run', slurm(), { patienceMs: 3_000 })
  await sleep(300)
  await writeFile(squeue, `#!/bin/sh\ncat ${home}/jobs/1/state\n`, { mode: 0o755 })
  await ending
  assert.deepEqual(await states(), ['CANCELLED'])
})
