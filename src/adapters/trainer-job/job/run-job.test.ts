import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, mock, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { python, pythonEnvironment, startPolicyServer, withoutPython } from '../../../../test/support/python.ts'
import { type JobRequest, LONG_JOB, makeJobStore, prepareTestJob } from '../../../../test/support/training-jobs.ts'
import { createWarmTrainer } from '../../../../test/support/warm-trainer.ts'
import type { ArtifactStore } from '../../../contracts/artifacts.types.ts'
import { runKeys } from '../../../contracts/keys.ts'
import type { PolicyRef } from '../../../contracts/policy.types.ts'
import { verifyCanary } from '../../policy-server/canary.ts'
import { createPolicyClient } from '../../policy-server/client.ts'
import { claimFence } from './attempt-files.ts'
import type { PreparedJob } from './job-spec.ts'
import { createProcessLauncher } from '../launchers/process-launcher.ts'
import { runJob, type RunJobInput } from './run-job.ts'
import { HANG_MS } from '../../../../test/support/hang.ts'

/** The launcher against the real trainer on a tiny random model. */
describe('training job', { skip: withoutPython }, () => {
  const command = { python: python ?? '', env: { PYTHONPATH: pythonEnvironment.PYTHONPATH } }
  const launcher = createProcessLauncher(command)
  // For attempts of which a test asks only how they end or are followed; trainers that are killed, told to stop or left by a launcher
  // that died are started for real.
  const warm = createWarmTrainer()
  const never = new AbortController().signal
  let root = ''
  let store: ArtifactStore
  let base: PolicyRef

  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'run-job-'))
    ;({ store, base } = await makeJobStore(root))
  })
  after(async () => {
    await warm.close()
    await rm(root, { recursive: true, force: true })
  })

  const prepare = (request: Partial<JobRequest> & { run: string }) =>
    prepareTestJob({ store, policy: base, ...request })

  const start = (job: PreparedJob, changes: Partial<RunJobInput> = {}) =>
    runJob({ job, launcher, attempt: 1, signal: never, ...changes })

  const startWarm = (job: PreparedJob, changes: Partial<RunJobInput> = {}) =>
    start(job, { launcher: warm.launcher, ...changes })

  test('commits a policy after rft, from which dapo starts and commits the next', async () => {
    const events: string[] = []
    const rft = await prepare({ run: 'a' })
    const trained = await start(rft, { onProgress: ({ event }) => events.push(event) })
    // 4 trajectories in batches of 2, twice.
    assert.equal(trained.steps, 4)
    assert.equal(trained.policy.globalStep, 4)
    assert.equal(trained.policy.version, `v000004-${rft.key.slice(0, 8)}`)
    assert.equal(trained.metrics.length, 4)
    assert.ok(Number.isFinite(trained.loss))
    for (const event of ['started', 'loaded', 'opt_step', 'committed', 'exported', 'done']) {
      assert.ok(events.includes(event), `${event} in ${events.join(' ')}`)
    }
    for (const { uri, checkpointUri } of [base, trained.policy]) {
      for (const place of [uri, checkpointUri]) if (place !== null) await assertShared(fileURLToPath(place))
    }
    const dapo = await startWarm(await prepare({ run: 'a', kind: 'dapo', policy: trained.policy }))
    assert.equal(dapo.policy.globalStep, 6)
    assert.notEqual(dapo.policy.manifestSha256, trained.policy.manifestSha256)
  })

  /** On a cluster workers, trainer and policy servers are different users. */
  async function assertShared(directory: string): Promise<void> {
    const files = await readdir(directory, { recursive: true, withFileTypes: true })
    const modes = files
      .filter((entry) => entry.isFile())
      .map((entry) => [entry.name, statSync(join(entry.parentPath, entry.name)).mode & 0o777])
    assert.ok(modes.length > 2)
    assert.deepEqual(
      modes,
      modes.map(([name]) => [name, 0o666 & ~process.umask()]),
    )
  }

  test('the exported canary distinguishes the new weights from the old ones', async () => {
    const job = await prepare({ run: 'a' })
    const { policy } = await startWarm(job)
    const server = await startPolicyServer({ state: join(root, 'server'), maxVersions: 2 })
    try {
      const client = createPolicyClient({ kind: 'embedded', url: server.url })
      await client.load({ policy, holder: 'test', leaseMs: 60_000 }, never)
      await client.load({ policy: base, holder: 'test', leaseMs: 60_000 }, never)
      const verdict = await verifyCanary({ client, policy, tolerance: 1e-4, signal: never })
      assert.equal(verdict.kind, 'verified')
      const stale = { score: ({ ids }: { ids: number[] }) => client.score({ policy: base.version, ids }, never) }
      const check = verifyCanary({ client: stale, policy, tolerance: 1e-4, signal: never })
      await assert.rejects(check, { code: 'Model.CanaryMismatch', message: /those of the old ones/ })
    } finally {
      await server.stop()
    }
  })

  test('concurrent and later launchers start one trainer and all get its result', async () => {
    const job = await prepare({ run: 'twice' })
    const [a, b] = await Promise.all([start(job), start(job)])
    assert.deepEqual(a, b)
    assert.deepEqual(await start(await prepare({ run: 'twice' })), a)
    assert.deepEqual(attemptsOf(job), ['1'])
  })

  test('the trainer of a launcher that dies continues, and the next launcher follows it', async () => {
    const job = await prepare({ run: 'orphan', trajectories: LONG_JOB })
    const launcher = launchInOtherProcess(job)
    await untilExists(join(job.jobDirectory, 'leases/1.json'))
    launcher.kill('SIGKILL')
    const result = await start(job, { attempt: 2 })
    assert.equal(result.steps, LONG_JOB)
    assert.deepEqual(attemptsOf(job), ['1'])
  })

  test('a trainer killed in the middle of its steps continues from its last committed step', async () => {
    const job = await prepare({ run: 'killed', trajectories: LONG_JOB })
    let killed = false
    const first = start(job, {
      onProgress: ({ event, globalStep }) => {
        if (killed || event !== 'opt_step' || (globalStep ?? 0) < 3) return
        killed = true
        process.kill(leaderOf(job), 'SIGKILL')
      },
    })
    await assert.rejects(first, { code: 'Trainer.Failed', retryable: true })
    const events: string[] = []
    const result = await startWarm(job, { attempt: 2, onProgress: ({ event }) => events.push(event) })
    assert.equal(result.steps, LONG_JOB)
    assert.ok(events.includes('resumed'))
  })

  test("a cancelled job stops its trainer and throws the caller's own reason", async () => {
    const job = await prepare({ run: 'cancelled', trajectories: LONG_JOB })
    const controller = new AbortController()
    const reason = new Error('cancelled')
    const running = start(job, {
      signal: controller.signal,
      onProgress: ({ event }) => event === 'opt_step' && controller.abort(reason),
    })
    await assert.rejects(running, (error) => error === reason)
    const report = JSON.parse(await readFile(join(job.jobDirectory, 'attempts/1/exit.json'), 'utf8')) as {
      code: number
    }
    assert.equal(report.code, 75)
    assert.equal((await startWarm(job, { attempt: 2 })).steps, LONG_JOB)
  })

  test('two ranks under torchrun are followed, exit with 75 when stopped, and continue from their shards', async () => {
    const two = { launcher: 'torchrun', ranksPerNode: 2 } as const
    const job = await prepare({ run: 'two-ranks', trajectories: 40, trainer: two })
    const controller = new AbortController()
    const reason = new Error('stop')
    const seen: string[] = []
    const running = start(job, {
      signal: controller.signal,
      onProgress: ({ event }) => {
        seen.push(event)
        if (event === 'checkpoint') controller.abort(reason)
      },
    })
    await assert.rejects(running, (error) => error === reason)
    for (const event of ['started', 'loaded', 'opt_step', 'checkpoint']) assert.ok(seen.includes(event), event)
    const report = JSON.parse(await readFile(join(job.jobDirectory, 'attempts/1/exit.json'), 'utf8')) as {
      code: number
    }
    assert.equal(report.code, 75)

    const events: string[] = []
    const result = await start(job, { attempt: 2, onProgress: ({ event }) => events.push(event) })
    assert.equal(result.steps, 40)
    assert.ok(events.includes('resumed'))
    assert.ok(events.filter((event) => event === 'opt_step').length < 40)
    const shards = (await readdir(job.checkpoint.directory)).filter((name) => name.startsWith('state-'))
    assert.deepEqual(shards.sort(), ['state-00000-of-00002.safetensors', 'state-00001-of-00002.safetensors'])
  })

  test('killed ranks leave no log directory behind', async () => {
    const job = await prepare({
      run: 'killed-ranks',
      trajectories: 40,
      trainer: { launcher: 'torchrun', ranksPerNode: 2 },
    })
    const temporary = await mkdtemp(join(root, 'tmp-'))
    let killed = false
    const running = start(job, {
      launcher: createProcessLauncher({ ...command, env: { ...command.env, TMPDIR: temporary } }),
      onProgress: ({ event }) => {
        if (killed || event !== 'opt_step') return
        killed = true
        const leader = leaderOf(job)
        const parent = Number(readFileSync(`/proc/${leader}/stat`, 'utf8').split(') ')[1]?.split(' ')[1])
        for (const pid of [parent, leader]) process.kill(pid, 'SIGKILL')
      },
    })
    await assert.rejects(running, { retryable: true })
    assert.ok(killed)
    const left = (await readdir(temporary)).filter((name) => name.startsWith('torchelastic'))
    assert.deepEqual(left, [])
  })

  test('a worker that shuts down leaves the trainer to the next one', async () => {
    const job = await prepare({ run: 'outlives', trajectories: LONG_JOB })
    const controller = new AbortController()
    const reason = new Error('worker shutdown')
    const running = startWarm(job, {
      signal: controller.signal,
      mayOutlive: (given) => given === reason,
      onProgress: ({ event }) => event === 'opt_step' && controller.abort(reason),
    })
    await assert.rejects(running, (error) => error === reason)
    assert.equal((await startWarm(job, { attempt: 2 })).steps, LONG_JOB)
    assert.deepEqual(attemptsOf(job), ['1'])
  })

  test('a stalled trainer is stopped after the stall limit, and the next attempt continues from its last step', async () => {
    const job = await prepare({ run: 'stalled', trajectories: LONG_JOB })
    const limits = { ...job.limits, graceMs: 200 }
    const running = startWarm(
      { ...job, limits },
      {
        onProgress: ({ event }) => {
          // After a checkpoint, so that there is something to go on from.
          if (event !== 'checkpoint' || limits.stallMs === 1000) return
          // Short only from here on: the first steps may take longer than this.
          limits.stallMs = 1000
          process.kill(leaderOf(job), 'SIGSTOP')
        },
      },
    )
    await assert.rejects(running, { code: 'Trainer.Stalled', retryable: true, message: /no progress for 1000 ms/ })
    await untilGone(leaderOf(job))
    const events: string[] = []
    const result = await startWarm(job, { attempt: 2, onProgress: ({ event }) => events.push(event) })
    assert.equal(result.steps, LONG_JOB)
    assert.ok(events.includes('resumed'))
  })

  test('stops a job that runs beyond trainer.timeoutS, with its trainer', async () => {
    const job = await prepare({ run: 'late', trainer: { timeoutS: 1 } })
    // A trainer that is still at its imports then, however fast the machine is.
    const imports = join(root, 'imports')
    await writeFile(imports, '#!/bin/sh\nexec sleep 30\n', { mode: 0o755 })
    const launcher = createProcessLauncher({ python: imports })
    const late = start(job, { launcher })
    await assert.rejects(late, { code: 'Trainer.Failed', retryable: true, message: /not done after 1000 ms/ })
    assert.equal((await launcher.look({ job, fence: 1 })).kind, 'over')
  })

  /** Where a scheduler places it, the time in its queue does not count: what follows the first sign of work does. */
  test('a job over its time on other machines is stopped too, and the next attempt continues', async () => {
    const job = await prepare({ run: 'late-elsewhere', trajectories: LONG_JOB })
    const limits = { ...job.limits }
    const late = startWarm(
      { ...job, limits },
      {
        launcher: { ...warm.launcher, isElsewhere: true },
        // After a checkpoint, so that there is something to go on from. Longer than any look at the job takes: a clock that began
        // anew with each look would have to be seen.
        onProgress: ({ event }) => event === 'checkpoint' && (limits.timeoutMs = 500),
      },
    )
    await assert.rejects(late, { code: 'Trainer.Failed', message: /not done after 500 ms/ })
    assert.equal((await launcher.look({ job, fence: 1 })).kind, 'over')
    const events: string[] = []
    const result = await startWarm(job, { attempt: 2, onProgress: ({ event }) => events.push(event) })
    assert.equal(result.steps, LONG_JOB)
    assert.ok(events.includes('resumed'))
  })

  /** The story: the worker's host is cut off with its trainer, and the job comes to a worker of another host. */
  test('starts no trainer beside one of another host until that one has been silent for long', async () => {
    const job = await prepare({ run: 'far-away' })
    const { jobDirectory } = job
    assert.equal(await claimFence({ jobDirectory, fence: 1, spec: { ...job.spec, attempt: 1, fence: 1 } }), true)
    await mkdir(join(jobDirectory, 'leases'), { recursive: true })
    const owner = { fence: 1, host: 'another-host', pid: 1, pid_start: '1', boot_id: 'another-boot' }
    await writeFile(join(jobDirectory, 'leases/1.json'), JSON.stringify(owner))
    const progress = join(jobDirectory, 'attempts/1/progress.jsonl')
    const waitingFor: string[] = []
    const waitsInVain = async (): Promise<void> => {
      const impatient = new AbortController()
      let asked = 0
      const onQueued = (why: Error | null): void => {
        waitingFor.push(String(why))
        if (++asked === 3) impatient.abort(new Error('enough'))
      }
      await assert.rejects(start(job, { attempt: 2, signal: impatient.signal, onQueued }), /enough/)
    }
    // It is still starting, and has reported nothing.
    await waitsInVain()
    await writeFile(progress, '')
    await waitsInVain()
    for (const why of waitingFor)
      assert.match(why, /trainer on another host is running.*silent for \d+ s.*host=another-host/)
    // The clock of this host is hours ahead of the one that dates the file, by which that trainer would have been silent for long.
    mock.timers.enable({ apis: ['Date'], now: Date.now() + job.limits.stallMs + 7_200_000 })
    try {
      await waitsInVain()
    } finally {
      mock.timers.reset()
    }
    assert.deepEqual(attemptsOf(job), ['1'])
    const silentSince = new Date(Date.now() - job.limits.stallMs - 60_000)
    const onQueued = (): void => void utimes(progress, silentSince, silentSince)
    assert.equal((await startWarm(job, { attempt: 4, onQueued })).steps, 4)
    assert.deepEqual(attemptsOf(job), ['1', '2'])
  })

  /** The story: a launcher has claimed the job a moment ago, and its Python is not there yet when the next launcher looks. */
  test('waits for a claim without a process, and takes it over only after a while', async () => {
    const job = await prepare({ run: 'claimed' })
    const { jobDirectory } = job
    assert.equal(await claimFence({ jobDirectory, fence: 1, spec: { ...job.spec, attempt: 1, fence: 1 } }), true)
    const impatient = new AbortController()
    const waiting = start(job, {
      attempt: 2,
      signal: impatient.signal,
      launcher: { ...launcher, launchMs: 3_600_000 },
    })
    // Several looks long.
    await sleep(1_500)
    impatient.abort(new Error('enough'))
    await assert.rejects(waiting, /enough/)
    assert.deepEqual(attemptsOf(job), ['1'])
    assert.equal((await start(job, { attempt: 3, launcher: { ...warm.launcher, launchMs: 0 } })).steps, 4)
    assert.deepEqual(attemptsOf(job), ['1', '2'])
  })

  test('reports a trainer that cannot be stopped instead of failing, which would start another one', async () => {
    const job = await prepare({ run: 'undead', trajectories: LONG_JOB })
    const controller = new AbortController()
    const running = start(job, {
      signal: controller.signal,
      launcher: { ...warm.launcher, stop: () => Promise.resolve(false) },
      onProgress: ({ event }) => event === 'opt_step' && controller.abort(new Error('cancelled')),
    })
    try {
      await assert.rejects(running, { code: 'Trainer.Unavailable', retryable: true, message: /still running/ })
    } finally {
      assert.equal(await launcher.stop({ job, fence: 1 }, 0), true)
    }
  })

  test('a diverging job ends permanently, and its first policy stays the last one', async () => {
    // At this rate the first update sends every weight away; the second gradient is not finite.
    const job = await prepare({ run: 'diverged', learningRate: 1e30 })
    await assert.rejects(startWarm(job), { code: 'Trainer.Diverged', retryable: false })
    for (const { directory } of [job.checkpoint, job.policy]) assert.equal(existsSync(directory), false)
    assert.equal((await startWarm(await prepare({ run: 'after' }))).steps, 4)
  })

  test('a torn batch, an invalid spec and a missing interpreter each have their code', async () => {
    const torn = await prepare({ run: 'torn' })
    await writeFile(join(store.path(runKeys.batch('torn', 'rft', 1, 0)), 'batch.safetensors'), 'torn')
    await assert.rejects(startWarm(torn), { code: 'Trainer.BatchRefused', retryable: false })
    const bad = await prepare({ run: 'bad' })
    await assert.rejects(start({ ...bad, spec: { ...bad.spec, surprise: 1 } }), { code: 'Trainer.BadSpec' })
    const other = await prepare({ run: 'no-python' })
    const without = start(other, { launcher: createProcessLauncher({ python: join(root, 'no-python') }) })
    await assert.rejects(without, { code: 'Trainer.Unavailable', retryable: true })
    const moved = await prepare({ run: 'moved', policy: { ...base, manifestSha256: '0'.repeat(64) } })
    await assert.rejects(startWarm(moved), { code: 'Trainer.InputMissing', retryable: false })
  })

  test('the key ignores attempt and layout and changes with the batch', async () => {
    const [a, b] = [await prepare({ run: 'key' }), await prepare({ run: 'key' })]
    assert.equal(a.key, b.key)
    const other = await prepare({ run: 'key-2', trajectories: 6 })
    assert.notEqual(other.key, a.key)
  })

  /** A killed process stays visible until its parent has collected it. */
  async function untilGone(pid: number): Promise<void> {
    const deadline = Date.now() + HANG_MS
    for (;;) {
      try {
        process.kill(pid, 0)
      } catch (error) {
        assert.equal((error as NodeJS.ErrnoException).code, 'ESRCH')
        return
      }
      assert.ok(Date.now() < deadline, `process ${pid} is still there`)
      await sleep(50)
    }
  }

  function attemptsOf({ jobDirectory }: PreparedJob): string[] {
    return readdirSync(join(jobDirectory, 'attempts'))
  }

  function leaderOf({ jobDirectory }: PreparedJob): number {
    const lease = JSON.parse(readFileSync(join(jobDirectory, 'leases/1.json'), 'utf8')) as { pid: number }
    return lease.pid
  }

  function launchInOtherProcess(job: PreparedJob): ChildProcess {
    const script = `
      import { runJob } from ${JSON.stringify(join(import.meta.dirname, 'run-job.ts'))}
      import { createProcessLauncher } from ${JSON.stringify(join(import.meta.dirname, '../launchers/process-launcher.ts'))}
      const { job, command } = JSON.parse(process.argv[1])
      await runJob({ job, launcher: createProcessLauncher(command), attempt: 1, signal: new AbortController().signal })
    `
    const args = ['--input-type=module', '-e', script, JSON.stringify({ job, command })]
    return spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] })
  }

  async function untilExists(path: string): Promise<void> {
    for (const deadline = Date.now() + HANG_MS; Date.now() < deadline; ) {
      if ((await stat(path).catch(() => null)) !== null) return
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    throw new Error(`${path} did not appear: ${(await readdir(root)).join(' ')}`)
  }
})
