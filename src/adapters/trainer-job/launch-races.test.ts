/**
 * Two launchers want one job. The first claims fence 1 and hangs before its scheduler knows of the job; the second looks, finds a
 * claim and no job. What it did then: it claimed fence 2 and submitted a second job. On Slurm `--dependency=singleton` kept them
 * from running side by side; on Kubernetes the second removed the job of the first, and the first the newer one of the second.
 */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, beforeEach, test } from 'node:test'
import { useEnvironment } from '../../../test/support/environment.ts'
import { type FakeCluster, startFakeCluster, until } from '../../../test/support/fake-cluster.ts'
import { exampleAttempt, exampleOptions } from '../../../test/support/launcher-examples.ts'
import { claimFence } from './job/attempt-files.ts'
import type { PreparedJob } from './job/job-spec.ts'
import { createKubernetesLauncher } from './launchers/kubernetes-launcher.ts'
import type { Launcher } from './launchers/launcher.types.ts'
import { runJob } from './job/run-job.ts'
import { createSlurmLauncher } from './launchers/slurm-launcher.ts'
import { slurmScript } from './launchers/slurm-script.ts'

const pathBefore = process.env['PATH']
const root = await mkdtemp(join(tmpdir(), 'launch-races-'))
useEnvironment({ after })
after(() => rm(root, { recursive: true, force: true }))

let cluster: FakeCluster
let job: PreparedJob
let count = 0

beforeEach(async () => {
  const home = join(root, String(++count))
  process.env['PATH'] = pathBefore
  cluster = await startFakeCluster(home)
  process.env['PATH'] = cluster.path
  const { job: example } = exampleAttempt({ nodes: 1, ranksPerNode: 1 })
  job = {
    ...example,
    jobDirectory: join(home, 'job'),
    checkpoint: { directory: join(home, 'checkpoint'), uri: '' },
    policy: { directory: join(home, 'policy'), uri: '', version: 'v000020-01234567' },
    globalStep: 12,
    steps: 8,
    limits: { timeoutMs: 3_600_000, stallMs: 3_600_000, graceMs: 10 },
  }
  await mkdir(job.jobDirectory, { recursive: true })
})

const slurm = (launchMs = 3_600_000): Launcher =>
  createSlurmLauncher({ options: null, command: { python: 'python3' }, pollMs: 10, settleMs: 10, launchMs })
const kubernetes = (launchMs = 3_600_000): Launcher => ({
  ...createKubernetesLauncher({ options: exampleOptions }),
  pollMs: 10,
  settleMs: 10,
  launchMs,
})

/** A worker with the job: stops it, or lets it be, when the test is over. */
function start(launcher: Launcher, attempt: number) {
  const controller = new AbortController()
  const ended = runJob({ job, launcher, attempt, signal: controller.signal, mayOutlive: () => true }).catch(
    (error: Error) => error,
  )
  return {
    ended,
    async leave(): Promise<Error> {
      controller.abort(new Error('left'))
      return (await ended) as Error
    },
  }
}

const claim = (fence: number): Promise<boolean> =>
  claimFence({ jobDirectory: job.jobDirectory, fence, spec: { fence } })
const claimed = (fence: number): boolean => existsSync(join(job.jobDirectory, `spec.${fence}.json`))
const askedAgain = async (tool: string, times: number): Promise<void> => {
  const before = await cluster.calls(tool)
  await until(async () => (await cluster.calls(tool)) >= before + times)
}

for (const [name, create, submit, look] of [
  ['Slurm', slurm, 'sbatch', 'squeue'],
  ['Kubernetes', kubernetes, 'kubectl', 'kubectl'],
] as const) {
  const isOneCommand: boolean = submit === look

  test(`${name}: a second launcher waits for one that hangs between claim and job, and starts nothing`, async () => {
    // With one command for everything the second call closes the network, right before the submission: nothing is asked before the claim.
    await cluster.hold(submit, isOneCommand ? 2 : 1)
    const first = start(create(), 1)
    await until(async () => (await cluster.calls(submit)) === (isOneCommand ? 2 : 1))
    const second = start(create(), 2)
    await askedAgain(look, 4)
    assert.deepEqual(await cluster.jobs(), [])
    assert.equal(claimed(2), false)
    await cluster.release(submit)
    await until(async () => (await cluster.jobs()).length === 1)
    await askedAgain(look, 6)
    assert.match((await second.leave()).message, /left/)
    assert.match((await first.leave()).message, /left/)
    assert.equal((await cluster.jobs()).length, 1)
  })

  test(`${name}: ten concurrent launchers create one job`, async () => {
    const launcher = create()
    const all = Array.from({ length: 10 }, (_, attempt) => start(launcher, attempt + 1))
    await until(async () => (await cluster.jobs()).length > 0)
    await askedAgain(look, 15)
    const endings = await Promise.all(all.map(async (one) => (await one.leave()).message))
    // One that looked before the first had claimed may claim the next fence. A cluster then refuses it the name, which is taken.
    const isRefused = (message: string): boolean =>
      name === 'Kubernetes' && message.startsWith('Expected no other attempt under the name')
    for (const message of endings.filter((one) => !isRefused(one))) assert.match(message, /left/)
    assert.equal((await cluster.jobs()).length, 1)
    if (!endings.some(isRefused)) assert.equal(claimed(2), false)
  })

  test(`${name}: after a launcher died between claim and job the next one waits once and launches the next fence`, async () => {
    await claim(1)
    const next = start(create(50), 2)
    await until(async () => (await cluster.jobs()).length === 1)
    assert.equal(claimed(2), true)
    await next.leave()
  })

  test(`${name}: a launcher follows the live attempt before an unlaunched claim and starts nothing`, async () => {
    await claim(1)
    await create().launch({ job, fence: 1 })
    const id = (await cluster.jobs())[0]?.id ?? ''
    await cluster.setState(id, 'RUNNING')
    await claim(2)
    const next = start(create(0), 3)
    await askedAgain(look, 6)
    await next.leave()
    assert.deepEqual(
      (await cluster.jobs()).map((one) => [one.id, one.state]),
      [[id, 'RUNNING']],
    )
    assert.equal(claimed(3), false)
  })

  test(`${name}: the next attempt does not wait for a job that the scheduler refused`, async () => {
    const broken = { ...create(), launch: create().launch }
    await rm(join(root, String(count), 'bin', submit))
    const answer = isOneCommand ? 'case $1 in get) echo "(NotFound)" >&2; exit 1 ;; esac' : ''
    const text = `#!/bin/sh\n${answer}\necho no such partition >&2\nexit 1\n`
    await writeFile(join(root, String(count), 'bin', submit), text, { mode: 0o755 })
    for (const fence of [1, 2, 3]) {
      const error = (await start(broken, fence).ended) as Error
      assert.match(error.message, /no such partition/)
      assert.equal(claimed(fence), true)
    }
  })
}

test('Slurm holds the second job of one name until the first of two racing ones has ended', async () => {
  await claim(1)
  await slurm().launch({ job, fence: 1 })
  await claim(2)
  await slurm().launch({ job, fence: 2 })
  assert.equal((await cluster.jobs()).length, 2)
  const scripts = [1, 2].map((fence) =>
    slurmScript({ options: null, command: { python: 'python3' }, attempt: { job, fence } }),
  )
  for (const script of scripts) {
    assert.match(script, /^#SBATCH --dependency=singleton$/m)
    assert.match(script, new RegExp(`^#SBATCH --job-name=${job.jobId}$`, 'm'))
  }
})

test('Slurm: variables of a person, which filter what squeue says and rename a job, hide no running job', async () => {
  const bin = join(root, String(count), 'bin')
  await claim(1)
  await slurm().launch({ job, fence: 1 })
  // What the commands do with these variables.
  const obedient = { squeue: 'SQUEUE_PARTITION', sbatch: 'SBATCH_JOB_NAME' }
  for (const [tool, variable] of Object.entries(obedient)) {
    const text = await readFile(join(bin, tool), 'utf8')
    const first = `#!/bin/sh\n[ -z "$${variable}" ] || exit 0\n`
    await writeFile(join(bin, tool), text.replace('#!/bin/sh\n', first))
    process.env[variable] = 'debug'
  }
  assert.equal((await slurm().look({ job, fence: 1 })).kind, 'alive')
  await slurm().launch({ job, fence: 2 })
})

test('Slurm: a job in a state that only a later version has is not over', async () => {
  await claim(1)
  await slurm().launch({ job, fence: 1 })
  for (const [state, kind] of [
    ['EXPEDITING', 'alive'],
    ['REQUEUED', 'alive'],
    ['NODE_FAIL', 'over'],
    ['PREEMPTED', 'over'],
  ] as const) {
    await cluster.setState('1', state)
    assert.equal((await slurm().look({ job, fence: 1 })).kind, kind, state)
  }
})

test('Kubernetes: a launcher that was suspended follows a newer attempt under the name and removes nothing', async () => {
  await claim(1)
  await claim(2)
  await kubernetes().launch({ job, fence: 2 })
  await assert.rejects(kubernetes().launch({ job, fence: 1 }), {
    code: 'Trainer.Unavailable',
    message: /attempt 2 has it/,
  })
  assert.deepEqual(
    (await cluster.jobs()).map(({ text }) => text),
    ['2'],
  )
  const again = start(kubernetes(), 3)
  await askedAgain('kubectl', 4)
  await again.leave()
  assert.equal(claimed(3), false)
})

test('Kubernetes: the next attempt does not remove a running earlier one under the name', async () => {
  await claim(1)
  await kubernetes().launch({ job, fence: 1 })
  await claim(2)
  await assert.rejects(kubernetes().launch({ job, fence: 2 }), {
    code: 'Trainer.Unavailable',
    message: /attempt 1 has it/,
  })
  assert.deepEqual(
    (await cluster.jobs()).map(({ text, state }) => [text, state]),
    [['1', 'RUNNING']],
  )
})

test('Kubernetes: an ended earlier attempt is removed, and the next one gets the name', async () => {
  await claim(1)
  await kubernetes().launch({ job, fence: 1 })
  const id = (await cluster.jobs())[0]?.id ?? ''
  await cluster.setState(id, 'FAILED')
  await claim(2)
  await kubernetes().launch({ job, fence: 2 })
  assert.deepEqual(
    (await cluster.jobs()).map(({ text, state }) => [text, state]),
    [['2', 'RUNNING']],
  )
})

test('Kubernetes: pods that cannot start are reported with their reason, and the Job is deleted', async () => {
  const waiting = { reason: 'ImagePullBackOff', message: 'Back-off pulling image "registry.example/none"' }
  await cluster.setPods([{ status: { containerStatuses: [{ state: { waiting } }] } }])
  await assert.rejects(
    runJob({ job, launcher: kubernetes(), attempt: 1, signal: new AbortController().signal, blockedMs: 0 }),
    { code: 'Trainer.Unavailable', message: /cannot start it, withdrawn: ImagePullBackOff: Back-off pulling image/ },
  )
  assert.deepEqual(await cluster.jobs(), [])
})

test('a job that waits too long for its nodes is withdrawn with a code of its own', async () => {
  const ended = await runJob({
    job,
    launcher: slurm(),
    attempt: 1,
    signal: new AbortController().signal,
    queueMs: 0,
  }).catch((error: Error & { code?: string; retryable?: boolean }) => error)
  assert.ok(ended instanceof Error)
  assert.deepEqual([ended.code, ended.retryable], ['Trainer.NotStarted', false])
  assert.deepEqual(
    (await cluster.jobs()).map(({ state }) => state),
    ['CANCELLED'],
  )
})

test('a clock that runs a month ahead of the file system’s withdraws no job that waits for its nodes', async (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() + 30 * 86_400_000 })
  const waiting = start(slurm(), 1)
  await Promise.race([waiting.ended, askedAgain('squeue', 4)])
  assert.match((await waiting.leave()).message, /left/)
  assert.deepEqual(
    (await cluster.jobs()).map(({ state }) => state),
    ['PENDING'],
  )
})
