import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { useEnvironment } from '../../../../test/support/environment.ts'
import { noSlurmOptions } from '../../../../test/support/launcher-examples.ts'
import { python, pythonEnvironment, withoutPython } from '../../../../test/support/python.ts'
import { freePort } from '../../../../test/support/loopback.ts'
import { findSlurm, type Slurm, startSlurm, until } from '../../../../test/support/slurm.ts'
import { launchFirst, LONG_JOB, makeJobStore, prepareTestJob } from '../../../../test/support/training-jobs.ts'
import type { SlurmLauncherRecipe } from '../../../contracts/recipe.types.ts'
import { claimFence, exitReport, highestFence } from '../job/attempt-files.ts'
import { failureOf } from '../job/attempt-report.ts'
import { followAttempt } from '../job/follow-attempt.ts'
import type { PreparedJob } from '../job/job-spec.ts'
import { runJob } from '../job/run-job.ts'
import type { Launcher } from './launcher.types.ts'
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
    await launchFirst(job, launcher)
    await rm(join(job.jobDirectory, 'attempts/1/handle.json'))
    assert.equal((await runJob({ job, launcher, attempt: 2, signal: never })).steps, 2)
    assert.equal((await jobsNamed(job)).length, 1)
  })

  /** A site's own requeue starts the script again, after the pipeline has given the job to a newer attempt. */
  test('a requeued attempt that finds a newer fence exits with 76', async () => {
    const job = await prepare('requeued', LONG_JOB)
    await launchFirst(job, launcher)
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

  test('a refused submission names the key of the recipe and leaves no claim to wait for', async () => {
    const job = await prepare('refused', 2)
    for (const [attempt, [options, message]] of [
      [{ partition: 'nosuch' }, /sbatch: .*invalid partition specified: nosuch.* → correct trainer\.slurm\.partition/s],
      [{ gpusPerNode: 8 }, /sbatch: .*generic resource.* → correct trainer\.slurm\.gpusPerNode/s],
      [{ memory: '960G' }, /sbatch: .*Memory specification.* → lower trainer\.slurm\.memory/s],
      [{ extra: ['--constraint=h200'] }, /sbatch: .*feature specification.* → correct trainer\.slurm\.extra/s],
      [{ extra: ['--nosuchflag'] }, /sbatch: .*unrecognized option '--nosuchflag'.* → correct trainer\.slurm\.extra/s],
    ].entries() as ArrayIterator<[number, [Partial<SlurmLauncherRecipe>, RegExp]]>) {
      const running = runJob({ job, launcher: launch(options), attempt, signal: never })
      await assert.rejects(running, { code: 'Trainer.Unavailable', message })
      assert.equal((await exitReport(job.jobDirectory, attempt + 1))?.class, 'not-launched')
    }
    assert.deepEqual(await jobsNamed(job, 'PENDING,RUNNING'), [])
  })

  test('a job that no node can run is withdrawn with the reason and what to change', async () => {
    const job = await prepare('too-large', 2)
    const waits: string[] = []
    const onQueued = (why: Error | null) => waits.push(why?.message ?? '')
    const input = { job, launcher: launch({ extra: ['--nodes=4'] }), attempt: 1, signal: never, onQueued }
    await assert.rejects(runJob({ ...input, blockedMs: 2_000 }), {
      code: 'Trainer.Unavailable',
      message: /cannot start it, withdrawn: job \d+ is pending in Slurm: PartitionConfig → .*lower trainer\.nodes/,
    })
    assert.ok(waits.some((why) => /PartitionConfig → /.test(why)))
    assert.deepEqual(await jobsNamed(job, 'PENDING,RUNNING'), [])
  })

  test('a job that waits in the queue says why, also while the controller is away', async () => {
    const job = await prepare('held', 2)
    const controller = new AbortController()
    const waits: string[] = []
    const seen = (pattern: RegExp) => until(() => waits.some((why) => pattern.test(why)))
    const running = runJob({
      job,
      launcher: launch({ extra: ['--hold'] }),
      attempt: 1,
      signal: controller.signal,
      onQueued: (why) => waits.push(why === null ? '' : `${why.code} ${why.message}`),
    })
    const ended = assert.rejects(running, /enough/)
    await seen(/Trainer\.NotStarted .*job (\d+) is pending in Slurm: JobHeldUser → release it \(scontrol release \1\)/)
    await withoutController(() => seen(/Trainer\.Unavailable .*squeue: .*Unable to contact.* → .*scontrol ping/s))
    controller.abort(new Error('enough'))
    await ended
    assert.deepEqual(await jobsNamed(job, 'PENDING,RUNNING'), [])
  })

  test('the end of a job without a report says what Slurm knows, what the log says, and what to do', async () => {
    const cancelled = await prepare('cancelled-by-hand', 2)
    await launchFirst(cancelled, launch({ extra: ['--hold'] }))
    await slurm.command('scancel', `--jobname=${cancelled.jobId}`)
    await assert.rejects(follow(cancelled), {
      message: /CANCELLED for Slurm → somebody cancelled .*, without a report/,
    })

    const unseen = await prepare('unseen', 2)
    await launchFirst(unseen, launch({ extra: ['--hold'] }))
    // As on a node that does not mount the artifacts.
    const place = join(unseen.jobDirectory, 'attempts')
    await rename(place, `${place}.away`)
    await slurm.command('scontrol', 'release', ...(await jobsNamed(unseen)))
    await until(async () => (await jobsNamed(unseen, 'FAILED')).length === 1)
    await rename(`${place}.away`, place)
    await assert.rejects(follow(unseen), { message: /FAILED for Slurm \(JobLaunchFailure\) → .* every node mounts/ })

    const missing = await prepare('no-interpreter', 2)
    const python = '/nonexistent/bin/python'
    await assert.rejects(follow(missing, launch({ python })), {
      code: 'Trainer.Failed',
      message: /FAILED for Slurm, without a report; its log ends with ".*\/nonexistent\/bin\/python.*stdout\.log/,
    })
  })

  const launch = (options: Partial<SlurmLauncherRecipe>): Launcher =>
    createSlurmLauncher({
      options: { ...noSlurmOptions, ...options },
      command: { python: python ?? '', env: { PYTHONPATH: pythonEnvironment.PYTHONPATH } },
      pollMs: 200,
      settleMs: 500,
    })

  /** Follows the first attempt, which it starts unless it was. */
  async function follow(job: PreparedJob, by = launch({})): Promise<void> {
    if ((await highestFence(job.jobDirectory)) === 0) await launchFirst(job, by)
    throw failureOf(await followAttempt({ job, launcher: by, fence: 1, signal: never }), {})
  }

  /** The tools meet a port that nobody listens on. */
  async function withoutController(work: () => Promise<void>): Promise<void> {
    const path = process.env['SLURM_CONF'] ?? ''
    const conf = (await readFile(path, 'utf8')).replace(/^SlurmctldPort=.*$/m, `SlurmctldPort=${await freePort()}`)
    const away = join(root, 'away.conf')
    await writeFile(away, conf)
    process.env['SLURM_CONF'] = away
    await work().finally(() => (process.env['SLURM_CONF'] = path))
  }

  async function jobsNamed(job: PreparedJob, states = 'all'): Promise<string[]> {
    const text = await slurm.command('squeue', '--noheader', `--states=${states}`, `--name=${job.jobId}`, '--format=%i')
    return text.split('\n').filter((line) => line !== '')
  }
})
