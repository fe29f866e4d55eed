import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { useEnvironment } from '../../../../test/support/environment.ts'
import { python, pythonEnvironment, withoutPython } from '../../../../test/support/python.ts'
import { findSlurm, type Slurm, startSlurm } from '../../../../test/support/slurm.ts'
import { LONG_JOB, makeJobStore, prepareTestJob } from '../../../../test/support/training-jobs.ts'
import { claimFence, exitReport } from '../job/attempt-files.ts'
import type { PreparedJob } from '../job/job-spec.ts'
import { runJob } from '../job/run-job.ts'
import { createSlurmLauncher } from './slurm-launcher.ts'

const slurmHere = await findSlurm()
const skip = withoutPython !== false ? withoutPython : 'missing' in slurmHere ? slurmHere.missing : false

/** The real scheduler on one node, the real trainer in its jobs. */
describe('slurm launcher', { skip }, () => {
  const never = new AbortController().signal
  const launcher = createSlurmLauncher({
    options: null,
    command: { python: python ?? '', env: { PYTHONPATH: pythonEnvironment.PYTHONPATH } },
    pollMs: 200,
    // sbatch takes seconds on a loaded machine; a launcher that waits less starts a second job, which stops itself.
    settleMs: 20_000,
  })
  let root = ''
  let slurm: Slurm
  let prepare: (run: string, trajectories?: number) => Promise<PreparedJob>

  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'slurm-jobs-'))
    const { store, base } = await makeJobStore(root)
    const trainer = { launcher: 'slurm' as const, stallS: 600, timeoutS: 900 }
    prepare = (run, trajectories = 4) => prepareTestJob({ store, policy: base, run, trajectories, trainer })
    slurm = await startSlurm('root' in slurmHere ? slurmHere.root : '')
    // The launcher's commands look there.
    Object.assign(process.env, slurm.environment)
  })
  after(async () => {
    await slurm?.stop()
    await rm(root, { recursive: true, force: true })
  })
  useEnvironment({ after })

  test('two concurrent launchers train one batch job, and both get its policy', async () => {
    const job = await prepare('twice', 2)
    const [a, b] = await Promise.all([1, 2].map((attempt) => runJob({ job, launcher, attempt, signal: never })))
    assert.deepEqual(a, b)
    assert.equal(a?.steps, 2)
    assert.equal((await jobsNamed(job)).length, 1)
    assert.deepEqual(await launcher.look({ job, fence: 1 }), { kind: 'over', code: null, how: 'COMPLETED for Slurm' })
  })

  test('a cancelled job exits with 75 within its grace time, and the next attempt continues', async () => {
    const job = await prepare('cancelled', LONG_JOB)
    const controller = new AbortController()
    const onProgress = ({ event }: { event: string }) => event === 'opt_step' && controller.abort(new Error('enough'))
    await assert.rejects(runJob({ job, launcher, attempt: 1, signal: controller.signal, onProgress }), /enough/)
    assert.equal((await exitReport(job.jobDirectory, 1))?.code, 75)
    const events: string[] = []
    const result = await runJob({
      job,
      launcher,
      attempt: 2,
      signal: never,
      onProgress: ({ event }) => events.push(event),
    })
    assert.equal(result.steps, LONG_JOB)
    assert.ok(events.includes('resumed'))
  })

  test('finds the job of a dead submitter by its comment and follows it', async () => {
    const job = await prepare('orphan', 2)
    await claimFence({ jobDirectory: job.jobDirectory, fence: 1, spec: { ...job.spec, attempt: 1, fence: 1 } })
    await launcher.launch({ job, fence: 1 })
    await rm(join(job.jobDirectory, 'attempts/1/handle.json'))
    assert.equal((await runJob({ job, launcher, attempt: 2, signal: never })).steps, 2)
    assert.equal((await jobsNamed(job)).length, 1)
  })

  /** A site's own requeue starts the script again, after the pipeline has given the job to a newer attempt. */
  test('a requeued attempt that finds a newer fence exits with 76', async () => {
    const job = await prepare('requeued', LONG_JOB)
    await claimFence({ jobDirectory: job.jobDirectory, fence: 1, spec: { ...job.spec, attempt: 1, fence: 1 } })
    await launcher.launch({ job, fence: 1 })
    const handle = JSON.parse(await readFile(join(job.jobDirectory, 'attempts/1/handle.json'), 'utf8')) as {
      slurmJob: string
    }
    await until(() => existsSync(join(job.jobDirectory, 'leases/1.json')))
    await slurm.command('scontrol', 'update', `jobid=${handle.slurmJob}`, 'requeue=1')
    await slurm.command('scontrol', 'requeuehold', handle.slurmJob)
    const states = ['squeue', '--noheader', `--jobs=${handle.slurmJob}`, '--format=%T'] as const
    await until(async () => !['RUNNING', 'COMPLETING'].includes(await slurm.command(...states)))
    await rm(join(job.jobDirectory, 'attempts/1/exit.json'), { force: true })
    await claimFence({ jobDirectory: job.jobDirectory, fence: 2, spec: { ...job.spec, attempt: 2, fence: 2 } })
    await writeFile(join(job.jobDirectory, 'leases/2.json'), '{}')
    // A site waits two minutes with it.
    await slurm.command('scontrol', 'update', `jobid=${handle.slurmJob}`, 'starttime=now')
    await slurm.command('scontrol', 'release', handle.slurmJob)
    await until(async () => (await exitReport(job.jobDirectory, 1)) !== null)
    assert.equal((await exitReport(job.jobDirectory, 1))?.code, 76)
    assert.equal(existsSync(job.checkpoint.directory), false)
  })

  async function jobsNamed(job: PreparedJob): Promise<string[]> {
    const text = await slurm.command('squeue', '--noheader', '--states=all', `--name=${job.jobId}`, '--format=%i')
    return text.split('\n').filter((line) => line !== '')
  }

  async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
    for (const deadline = Date.now() + 120_000; !(await isSo()); ) {
      assert.ok(Date.now() < deadline, 'did not come within two minutes')
      await sleep(100)
    }
  }
})
