/** Training jobs of runs that were terminated while no worker lived, in a real engine and a real Slurm: the next worker ends them, and
 *  no other job. */
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { connectEngine } from '../../src/adapters/docker/engine/engine.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import { ensureBaseImage } from '../../src/adapters/docker/images/base-image.ts'
import { createDirectoryStore } from '../../src/adapters/artifacts/directory-store.ts'
import { readHandle, writeHandle } from '../../src/adapters/trainer-job/job/attempt-files.ts'
import { ownedJobs } from '../../src/adapters/trainer-job/job/job-owners.ts'
import { createDockerLauncher } from '../../src/adapters/trainer-job/launchers/docker-launcher.ts'
import type { Launcher } from '../../src/adapters/trainer-job/launchers/launcher.types.ts'
import { createSlurmLauncher } from '../../src/adapters/trainer-job/launchers/slurm-launcher.ts'
import { startJobWatch } from '../../src/workers/job-watch.ts'
import { useEnvironment } from '../support/environment.ts'
import { eventually } from '../support/hang.ts'
import { claimJob, leaveJob, ownerOf, writeWaitingTrainer } from '../support/left-jobs.ts'
import { findSlurm, startSlurm } from '../support/slurm.ts'

const root = await mkdtemp(join(tmpdir(), 'jobs-of-ended-runs-'))
const python = join(root, 'python')
await writeWaitingTrainer(python)
useEnvironment({ after })
after(() => rm(root, { recursive: true, force: true }))

const slurmHere = await findSlurm()

test('the batch job of an ended run leaves its Slurm, that of an open one stays', {
  skip: 'missing' in slurmHere ? slurmHere.missing : false,
}, async (t) => {
  const slurm = await startSlurm('root' in slurmHere ? slurmHere.root : '')
  t.after(() => slurm.stop())
  Object.assign(process.env, slurm.environment)
  const launcher = createSlurmLauncher({ options: null, command: { python }, pollMs: 200, settleMs: 500 })
  await assertEnds(launcher)

  // A scheduler that was set up anew counts from 1 again, so that an old handle names the job of somebody else.
  const store = createDirectoryStore({ root: join(root, 'store') })
  const [old, other] = [await claimJob(store, 'old'), await leaveJob({ store, launcher, owner: ownerOf('other') })]
  await writeHandle(old, await readHandle(other))
  assert.equal((await launcher.look(old)).kind, 'over')
  assert.equal(await launcher.stop(old, 1_000), true)
  assert.equal((await launcher.look(other)).kind, 'alive')
  assert.equal(await launcher.stop(other, 10_000), true)

  // The equal job of another store has the same name and key. Its comment was the same too.
  const twin = await claimJob(store, 'twin')
  const elsewhere = { ...twin, job: { ...twin.job, jobDirectory: join(root, 'elsewhere') } }
  await mkdir(join(root, 'elsewhere/attempts/1'), { recursive: true })
  await launcher.launch(elsewhere)
  assert.equal((await launcher.look(twin)).kind, 'absent')
  assert.equal(await launcher.stop(twin, 1_000), true)
  assert.equal((await launcher.look(elsewhere)).kind, 'alive')
  await launcher.stop(elsewhere, 1_000)
})

test('the container of an ended run leaves its engine, that of an open one stays', async (t) => {
  const engine = await connectEngine()
  const cacheDir = join(stackPaths().cacheDir, 'images')
  const { tag: image } = await ensureBaseImage({ engine, cacheDir, log: console.error })
  const options = { image, python, mounts: [root], gpus: false, shmGiB: 1 }
  const jobs = await assertEnds(createDockerLauncher({ options, command: { python } }))
  t.after(async () => {
    for (const id of jobs) await engine.docker.getContainer(`longhaul-${id}`).remove({ force: true, v: true })
  })
})

/** @returns the ids of the jobs */
async function assertEnds(launcher: Launcher): Promise<string[]> {
  const store = createDirectoryStore({ root: await mkdtemp(join(root, 'store-')) })
  const leave = (run: string) => leaveJob({ store, launcher, owner: ownerOf(run) })
  const [ended, open] = [await leave('ended'), await leave('open')]
  const watching = startJobWatch({
    store,
    namespaceId: 'ours',
    host: 'here',
    stateOf: async (id) => (id.startsWith('train/open') ? { kind: 'running', runId: 'first' } : { kind: 'closed' }),
    otherPlayerOf: async () => null,
    launcherOf: () => launcher,
    log: { info: () => undefined, warn: () => undefined },
    everyMs: 100,
  })
  try {
    await eventually(async () => {
      assert.notEqual((await launcher.look(ended)).kind, 'alive')
      assert.deepEqual(
        (await ownedJobs(store)).map(({ owners }) => owners.map(({ run }) => run)),
        [['open']],
      )
    })
    assert.equal((await launcher.look(open)).kind, 'alive')
  } finally {
    await watching.stop()
    await launcher.stop(open, 1_000)
  }
  return [ended.job.jobId, open.job.jobId]
}
