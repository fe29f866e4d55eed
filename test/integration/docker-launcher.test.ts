import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, realpath, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { tmpdir } from 'node:os'
import { stackPaths } from '../../src/stack/paths.ts'
import { ensureBaseImage } from '../../src/adapters/docker/images/base-image.ts'
import { connectEngine, type Engine } from '../../src/adapters/docker/engine/engine.ts'
import { claimFence, exitReport } from '../../src/adapters/trainer-job/job/attempt-files.ts'
import { createDockerLauncher, trainerContainer } from '../../src/adapters/trainer-job/launchers/docker-launcher.ts'
import type { TrainerCommand } from '../../src/adapters/trainer-job/launchers/process-launcher.ts'
import type { DockerLauncherRecipe } from '../../src/contracts/recipe.types.ts'
import type { PreparedJob } from '../../src/adapters/trainer-job/job/job-spec.ts'
import type { Launcher } from '../../src/adapters/trainer-job/launchers/launcher.types.ts'
import { runJob } from '../../src/adapters/trainer-job/job/run-job.ts'
import { python, pythonEnvironment, withoutPython } from '../support/python.ts'
import { launchFirst, LONG_JOB, makeJobStore, prepareTestJob } from '../support/training-jobs.ts'

/** The real trainer in containers of the project's own base image; Python is the host's, mounted where it lies. */
describe('docker launcher', { skip: withoutPython }, () => {
  const never = new AbortController().signal
  let root = ''
  let engine: Engine
  let options: DockerLauncherRecipe
  let command: TrainerCommand
  let launcher: Launcher
  let launcherWith: (changes: Partial<DockerLauncherRecipe>, keepEndedMs?: number) => Launcher
  let prepare: (run: string, trajectories?: number) => Promise<PreparedJob>
  const started: PreparedJob[] = []

  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'docker-jobs-'))
    const { store, base } = await makeJobStore(root)
    engine = await connectEngine()
    const cacheDir = join(stackPaths().cacheDir, 'images')
    const { tag: image } = await ensureBaseImage({ engine, cacheDir, log: console.error })
    const interpreter = python ?? ''
    const trainer = (pythonEnvironment.PYTHONPATH ?? '').split(':')[0] ?? ''
    const mounts = [dirname(dirname(interpreter)), dirname(dirname(await realpath(interpreter))), trainer, '/usr']
    command = { python: interpreter, env: { PYTHONPATH: trainer, PYTHONDONTWRITEBYTECODE: '1' } }
    options = { image, python: interpreter, mounts: [...new Set(mounts)], gpus: false, shmGiB: 1 }
    launcherWith = (changes, keepEndedMs) =>
      createDockerLauncher({
        options: { ...options, ...changes },
        command,
        ...(keepEndedMs === undefined ? {} : { keepEndedMs }),
      })
    launcher = launcherWith({})
    const suffix = randomBytes(4).toString('hex')
    prepare = async (run, trajectories = LONG_JOB) => {
      const request = {
        store,
        policy: base,
        // Equal jobs of an earlier checkout, or of a killed one, have the same names in the engine.
        run: `${run}-${suffix}`,
        trajectories,
        trainer: { launcher: 'docker' as const, stallS: 600, timeoutS: 900 },
      }
      started.push(await prepareTestJob(request))
      return started.at(-1) as PreparedJob
    }
  })
  after(async () => {
    for (const job of started) {
      await engine.docker
        .getContainer(`longhaul-${job.jobId}`)
        .remove({ force: true, v: true })
        .catch(() => undefined)
    }
    await rm(root, { recursive: true, force: true })
  })

  test('the next attempt continues a killed container, and a late launcher finds it by name', async () => {
    const job = await prepare('killed')
    await launchFirst(job, launcher)
    const [container] = await containersOf(job)
    assert.equal(container?.Labels['longhaul.trainer.key'], job.key)
    // The second worker launches nothing: it finds the container of fence 1 and follows it until the test kills it.
    const onProgress = ({ event }: { event: string }) =>
      event === 'opt_step' &&
      void engine.docker
        .getContainer(container?.Id ?? '')
        .kill()
        .catch(() => undefined)
    await assert.rejects(runJob({ job, launcher, attempt: 2, signal: never, onProgress }), {
      code: 'Trainer.Failed',
      message: /ended by status 137/,
    })
    const events: string[] = []
    const after = ({ event }: { event: string }) => events.push(event)
    const result = await runJob({ job, launcher, attempt: 3, signal: never, onProgress: after })
    assert.equal(result.steps, LONG_JOB)
    assert.ok(events.includes('started') && !events.includes('alarm'), events.join(' '))
    assert.equal((await containersOf(job)).length, 1)
    const lease = JSON.parse(await readFile(join(job.jobDirectory, 'leases/2.json'), 'utf8')) as { launcher: string }
    assert.equal(lease.launcher, job.jobId)
  })

  test('a cancelled job receives TERM and exits with 75', async () => {
    const job = await prepare('cancelled')
    const controller = new AbortController()
    const onProgress = ({ event }: { event: string }) => event === 'opt_step' && controller.abort(new Error('enough'))
    await assert.rejects(runJob({ job, launcher, attempt: 1, signal: controller.signal, onProgress }), /enough/)
    assert.equal((await exitReport(job.jobDirectory, 1))?.code, 75)
    // The report is written before the interpreter takes itself apart, for which a busy machine may not leave it the time.
    assert.equal((await launcher.look({ job, fence: 1 })).kind, 'over')
  })

  /** The engine has made such a container by then, and keeps it in the state `created`, which counted as alive for ever. */
  test('a container that cannot start is one error with its key, leaves nothing, and the next attempt trains', async () => {
    const job = await prepare('unstartable', 2)
    for (const [attempt, [changes, message]] of [
      [{ python: '/nonexistent/python' }, /\/nonexistent\/python.* → correct trainer\.docker\.python/s],
      [{ gpus: true }, /could not select device driver.* → .*trainer\.docker\.gpus: false/s],
      [{ image: 'longhaul/no-such-image:1' }, /no such image.* → pull or load the image/is],
    ].entries() as ArrayIterator<[number, [Partial<DockerLauncherRecipe>, RegExp]]>) {
      const running = runJob({ job, launcher: launcherWith(changes), attempt, signal: never })
      await assert.rejects(running, { code: 'Trainer.Unavailable', message })
      assert.deepEqual(await containersOf(job), [])
    }
    assert.equal((await runJob({ job, launcher, attempt: 9, signal: never })).steps, 2)
  })

  test('a container that its dead launcher never started is replaced by the next attempt', async () => {
    const job = await prepare('unstarted', 2)
    const claim = { jobDirectory: job.jobDirectory, fence: 1, spec: { ...job.spec, attempt: 1, fence: 1 } }
    await claimFence(claim)
    await engine.docker.createContainer(trainerContainer({ options, command, attempt: { job, fence: 1 } }))
    const impatient = { ...launcher, launchMs: 0 }
    assert.equal((await runJob({ job, launcher: impatient, attempt: 2, signal: never })).steps, 2)
    assert.equal((await containersOf(job))[0]?.Labels['longhaul.trainer.fence'], '2')
  })

  test('the equal job of another store keeps its container until it ends, and then its name is free', async () => {
    const job = await prepare('elsewhere', 2)
    const other = { job: { ...job, jobDirectory: '/elsewhere/job', artifactRoot: root }, fence: 1 }
    const sleeping = {
      ...trainerContainer({ options, command, attempt: other }),
      Cmd: ['sleep', '600'],
      WorkingDir: '/',
    }
    const container = await engine.docker.createContainer(sleeping)
    await container.start()
    assert.equal((await launcher.look({ job, fence: 1 })).kind, 'absent')
    assert.equal(await launcher.stop({ job, fence: 1 }, 0), true)
    await assert.rejects(runJob({ job, launcher, attempt: 1, signal: never }), {
      code: 'Trainer.Unavailable',
      message: /equal job of another artifact store, in \/elsewhere\/job, has it → wait for its end/,
    })
    assert.equal((await container.inspect()).State.Running, true)
    await container.kill()
    await container.wait()
    assert.equal((await runJob({ job, launcher, attempt: 2, signal: never })).steps, 2)
  })

  /** Each job has a container of its own, so nothing removed the ended ones of a run of a hundred iterations. */
  test('a launch removes containers of other jobs that ended long ago, and none that runs or was not started', async () => {
    const [ended, running, unstarted, next] = (await Promise.all(
      ['ended', 'running', 'not-started', 'next'].map((run) => prepare(run, 2)),
    )) as [PreparedJob, PreparedJob, PreparedJob, PreparedJob]
    await runJob({ job: ended, launcher, attempt: 1, signal: never })
    for (const job of [running, unstarted]) {
      const container = trainerContainer({ options, command, attempt: { job, fence: 1 } })
      const created = await engine.docker.createContainer({ ...container, Cmd: ['sleep', '600'], WorkingDir: '/' })
      if (job === running) await created.start()
    }
    const count = async (): Promise<number[]> =>
      Promise.all([ended, running, unstarted].map(async (job) => (await containersOf(job)).length))
    const launch = async (fence: number, from: Launcher): Promise<void> => {
      await from.launch({ job: next, fence })
      await from.stop({ job: next, fence }, 0)
    }
    await launch(1, launcher)
    assert.deepEqual(await count(), [1, 1, 1])
    await launch(2, launcherWith({}, 0))
    assert.deepEqual(await count(), [0, 1, 1])
  })

  function containersOf(job: PreparedJob) {
    const filters = JSON.stringify({ label: [`longhaul.trainer.job=${job.jobId}`] })
    return engine.docker.listContainers({ all: true, filters })
  }
})
