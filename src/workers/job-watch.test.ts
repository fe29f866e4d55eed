/**
 * A run is terminated while the worker of its training job is dead. Temporal tells nobody: the activity has no worker, and a terminated
 * workflow does not clean up. The job used to hold its GPUs until its own end.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { eventually } from '../../test/support/hang.ts'
import { claimJob, leaveJob, noteForEver, ownerOf, writeWaitingTrainer } from '../../test/support/left-jobs.ts'
import { createDirectoryStore } from '../adapters/artifacts/directory-store.ts'
import { attemptDirectory, writeHandle } from '../adapters/trainer-job/job/attempt-files.ts'
import { type JobOwner, ownedJobs } from '../adapters/trainer-job/job/job-owners.ts'
import type { Attempt, Launcher } from '../adapters/trainer-job/launchers/launcher.types.ts'
import { createProcessLauncher } from '../adapters/trainer-job/launchers/process-launcher.ts'
import { identifyOnHost } from '../platform/processes.ts'
import type { OwnerState } from '../domain/orphaned-resources.ts'
import { type JobWatchInput, startJobWatch } from './job-watch.ts'

const root = await mkdtemp(join(tmpdir(), 'job-watch-'))
const python = join(root, 'python')
await writeWaitingTrainer(python)
const launcher = createProcessLauncher({ python })
const store = createDirectoryStore({ root: join(root, 'store') })
const CLOSED: OwnerState = { kind: 'closed' }
const RUNNING: OwnerState = { kind: 'running', runId: 'second' }
const left: Attempt[] = []

afterEach(async () => {
  for (const attempt of left.splice(0)) await launcher.stop(attempt, 0)
  for (const job of await ownedJobs(store)) await job.forget()
})
after(() => rm(root, { recursive: true, force: true }))

/** A job of the process launcher that its worker has left. */
async function leave(run: string, changes: Partial<JobOwner> = {}): Promise<Attempt> {
  const attempt = await leaveJob({ store, launcher, owner: ownerOf(run, changes) })
  left.push(attempt)
  return attempt
}

const kindOf = async (attempt: Attempt): Promise<string> => (await launcher.look(attempt)).kind
const notes = async (): Promise<number> => (await ownedJobs(store)).length

function watch(changes: Partial<JobWatchInput> = {}): { rounds(count: number): Promise<void>; stop(): Promise<void> } {
  let asked = 0
  const { stateOf = async () => CLOSED } = changes
  const watching = startJobWatch({
    store,
    namespaceId: 'ours',
    host: 'here',
    otherPlayerOf: async () => null,
    launcherOf: () => launcher,
    log: { info: () => undefined, warn: () => undefined },
    everyMs: 20,
    ...changes,
    stateOf: (workflowId) => {
      asked += 1
      return stateOf(workflowId)
    },
  })
  return {
    async rounds(count) {
      const before = asked
      await eventually(async () => assert.ok(asked >= before + count))
    },
    stop: () => watching.stop(),
  }
}

test('a worker that starts ends the job of a run that was terminated while no worker lived, and forgets it', async () => {
  const attempt = await leave('terminated')
  const watching = watch()
  await eventually(async () => assert.deepEqual([await kindOf(attempt), await notes()], ['over', 0]))
  await watching.stop()
})

for (const [what, state] of [
  ['is open, or was started again under its name', RUNNING],
  ['cannot be asked about', null],
] as const) {
  test(`the job of a run that ${what} goes on`, async () => {
    const attempt = await leave('open')
    const watching = watch({ stateOf: async () => state })
    await watching.rounds(3)
    await watching.stop()
    assert.deepEqual([await kindOf(attempt), await notes()], ['alive', 1])
  })
}

test('the job of a run that is started again between the look at it and the stop goes on', async () => {
  const attempt = await leave('again')
  const states = [CLOSED, CLOSED]
  const watching = watch({ stateOf: async () => states.shift() ?? RUNNING })
  await watching.rounds(4)
  await watching.stop()
  assert.deepEqual([await kindOf(attempt), await notes()], ['alive', 1])
})

test('the job of a stage that outlives its root, or has none, goes on', async () => {
  const attempt = await leave('stage')
  for (const rootState of [CLOSED, { kind: 'unknown' } as const]) {
    const watching = watch({ stateOf: async (id) => (id === 'train/stage' ? rootState : RUNNING) })
    await watching.rounds(3)
    await watching.stop()
  }
  assert.deepEqual([await kindOf(attempt), await notes()], ['alive', 1])
})

test('the job of a run that another workflow plays, or may play, goes on', async () => {
  const attempt = await leave('played')
  for (const otherPlayerOf of [async () => 'other', () => Promise.reject(new Error('no answer'))]) {
    const watching = watch({ otherPlayerOf })
    await watching.rounds(3)
    await watching.stop()
  }
  assert.deepEqual([await kindOf(attempt), await notes()], ['alive', 1])
})

test('the job of another stack on the same store goes on, and nobody asks this one’s server about it', async () => {
  const attempt = await leave('theirs', { namespaceId: 'theirs' })
  const asked: string[] = []
  const watching = watch({
    stateOf: async (workflowId) => {
      asked.push(workflowId)
      return { kind: 'unknown' }
    },
  })
  await sleep(200)
  await watching.stop()
  assert.deepEqual([asked, await kindOf(attempt), await notes()], [[], 'alive', 1])
})

test('a job that two runs have goes on until both have ended', async () => {
  const attempt = await leave('one')
  noteForEver({ store, job: attempt.job, owner: ownerOf('two') })
  let isOpen = true
  const watching = watch({ stateOf: async (id) => (id.startsWith('train/two') && isOpen ? RUNNING : CLOSED) })
  await watching.rounds(6)
  assert.equal(await kindOf(attempt), 'alive')
  isOpen = false
  await eventually(async () => assert.deepEqual([await kindOf(attempt), await notes()], ['over', 0]))
  await watching.stop()
})

test('a trainer that has reported its end and hangs as it exits is ended', async () => {
  const attempt = await leave('hangs')
  const report = join(attemptDirectory(attempt.job.jobDirectory, 1), 'exit.json')
  await writeFile(report, '{"code":75,"class":"stopped","message":""}')
  const watching = watch()
  await eventually(async () => assert.deepEqual([await kindOf(attempt), await notes()], ['over', 0]))
  await watching.stop()
})

test('a claim without a job is waited for as long as a launch may take', async () => {
  const { job } = await claimJob(store, 'claimed')
  noteForEver({ store, job, owner: ownerOf('claimed') })
  const slow = watch()
  await slow.rounds(3)
  await slow.stop()
  assert.equal(await notes(), 1)
  const watching = watch({ launcherOf: () => ({ ...launcher, launchMs: 0 }) })
  await eventually(async () => assert.equal(await notes(), 0))
  await watching.stop()
})

test('a launcher that does not answer is asked again, and the job stays noted', async () => {
  const attempt = await leave('silent')
  let isSilent = true
  const silent: Launcher = {
    ...launcher,
    look: async (one) => (isSilent ? Promise.reject(new Error('no answer')) : launcher.look(one)),
  }
  const said: string[] = []
  const log = { info: () => undefined, warn: (message: string) => void said.push(message) }
  const watching = watch({ launcherOf: () => silent, log })
  await watching.rounds(4)
  assert.deepEqual([await kindOf(attempt), await notes()], ['alive', 1])
  assert.deepEqual(said, ['a training job of an ended run could not be ended'], 'said once')
  isSilent = false
  await eventually(async () => assert.deepEqual([await kindOf(attempt), await notes()], ['over', 0]))
  await watching.stop()
})

test('what an engine of this host does not know may run on the host that launched it', async () => {
  const attempt = await leave('elsewhere', { host: 'there' })
  await writeFile(join(attemptDirectory(attempt.job.jobDirectory, 1), 'exit.json'), '{"code":75}')
  const elsewhere: Launcher = { ...launcher, look: async () => ({ kind: 'absent', how: 'unknown here' }) }
  const watching = watch({ launcherOf: () => elsewhere })
  await watching.rounds(3)
  await watching.stop()
  assert.equal(await notes(), 1)
})

test('a process of another host does not count as stopped', async () => {
  const attempt = await claimJob(store, 'unreachable')
  await writeHandle(attempt, { ...identifyOnHost(process.pid), host: 'there' })
  assert.deepEqual(await launcher.look(attempt), { kind: 'unknown', host: 'there' })
  assert.equal(await launcher.stop(attempt, 0), false)
})
