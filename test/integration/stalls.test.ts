/**
 * Each thing that a run depends on stalls in turn, and the run says so within a minute: what it waits for, since when, for whom
 * and what to do. Real server, workers and adapters; what stalls is real too, or a proxy in front of it that stops moving bytes.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmod, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { prepareSuite } from '../../src/activities/evaluation/prepare-suite.ts'
import { loadTasksAndFile } from '../../src/adapters/datasets/load-tasks.ts'
import { importBasePolicy } from '../../src/adapters/trainer-job/job/policy-directory.ts'
import {
  type Blocker,
  connect as connectToTemporal,
  findBlockers,
  pauseRun,
  queryProgress,
} from '../../src/client/index.ts'
import { isLonghaulError } from '../../src/contracts/errors.ts'
import { runKeys } from '../../src/contracts/keys.ts'
import { errnoOf } from '../../src/platform/files.ts'
import { makeTrainingRecipe } from '../support/training-records.ts'
import { needsServer } from '../support/own-namespace.ts'
import { EPISODE, PLAN, policyRef } from '../support/scripted-pipeline.ts'
import { startStallingProxy } from '../support/stalling-proxy.ts'
import { mountDeadFolder, withoutDeadFolders } from '../support/stalls/dead-folder.ts'
import { openStallWorld, publishingInput, type StallWorld } from '../support/stalls/stall-world.ts'
import { writeSmallBatch } from '../support/stalls/training-batch.ts'
import { withDeadline } from '../support/with-deadline.ts'
import { freePort, startSilentServer } from '../support/loopback.ts'
import { eventually, HANG_MS } from '../support/hang.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

const NOWHERE = `sandbox.nowhere-${process.pid}.abcd`

/** A stand-in for a Python that is killed, or that freezes, as soon as it has started: told by the run's name. */
const BROKEN_PYTHON = `#!/bin/sh
case "$*" in
*freezes*) echo $$ > "$STALL_TEST_PIDS/$$"; kill -STOP $$ ;;
*) kill -KILL $$ ;;
esac
`

describe('stalled dependencies', { skip: needsServer, concurrency: true }, () => {
  let world: StallWorld
  let scratch: string
  const listening: { close(): void }[] = []

  before(async () => {
    scratch = await mkdtemp(join(tmpdir(), 'longhaul-stalled-'))
    const python = join(scratch, 'python')
    await writeFile(python, BROKEN_PYTHON)
    await chmod(python, 0o755)
    world = await openStallWorld({ placeOn: NOWHERE })
    // Two, for what hangs holds its place, and one has four.
    const env = { LONGHAUL_PYTHON: python, STALL_TEST_PIDS: scratch }
    await Promise.all([world.startRole('trainer', 'trainer', env), world.startRole('trainer', 'trainer', env)])
  })

  after(async () => {
    for (const server of listening) server.close()
    for (const name of await readdir(scratch)) if (/^\d+$/.test(name)) killIfAlive(Number(name))
    await world?.close()
    await rm(scratch, { recursive: true, force: true })
  })

  test('names the address of a policy server that accepts and never answers', async () => {
    const url = await silentServer(listening)
    const workflowId = await publishOn(world, 'hangs', url)
    const blocker = await world.named(workflowId, ({ on }) => on.kind === 'policy-server')
    assert.equal(blocker.on.name, url)
    assert.match(blocker.doing, /^loading v/)
    assert.deepEqual([blocker.for.activity, blocker.for.stage, blocker.count], ['publishPolicy', 'rft', 1])
    assert.match(blocker.toDo, /v1\/models/)

    const shown = await longhaul(world, 'run', 'blockers', workflowId)
    assert.equal(shown.code, 2)
    assert.match(shown.stdout, /1 blocker\n[\s\S]*policy server http[\s\S]*since[\s\S]*to do/)
    const json = await longhaul(world, 'run', 'blockers', workflowId, '--json')
    const answer = JSON.parse(json.stdout) as { blockers: Blocker[] }
    assert.equal(answer.blockers[0]?.on.name, url)
    // Longer than anything has waited: nothing is blocked, and the exit code says so.
    const patient = await longhaul(world, 'run', 'blockers', workflowId, '--longer-than', '3600')
    assert.deepEqual([patient.code, /nothing is blocked/.test(patient.stdout)], [0, true])
  })

  test('names the error code and the refusal of a policy server that refuses connections', async () => {
    const url = `http://127.0.0.1:${await freePort()}`
    const workflowId = await publishOn(world, 'refuses', url)
    const blocker = await world.named(workflowId, ({ on }) => on.kind === 'policy-server')
    assert.equal(blocker.error?.code, 'Model.Unavailable')
    assert.match(blocker.error?.message ?? '', /ECONNREFUSED/)
  })

  test('names the store and the key of a file that never answers', { skip: withoutDeadFolders }, async () => {
    const run = 'stuck-store'
    const plan = { ...PLAN, run }
    const key = runKeys.recipe(run)
    const revive = await mountDeadFolder(join(world.artifacts, 'runs', run))
    try {
      const workflowId = `train/${run}/rft`
      await world.start('rejectionFineTune', workflowId, publishingInput(plan))
      const blocker = await world.named(workflowId, ({ on }) => on.kind === 'artifact-store')
      assert.deepEqual([blocker.on.name, blocker.doing], [world.artifacts, `reading ${key}`])
    } finally {
      await revive()
    }
  })

  test('names the queue of a sandbox host without a worker for the episode that waits', async () => {
    const workflowId = 'train/no-host/dapo-1/0003/task/x/ep/07'
    await world.start('episode', workflowId, { ...EPISODE, run: 'no-host' })
    const blocker = await world.named(workflowId, ({ on }) => on.name === NOWHERE)
    assert.equal(blocker.on.kind, 'worker')
    assert.match(blocker.error?.message ?? '', /no worker polls queue sandbox\.nowhere/)
    const { task, episode, activity } = blocker.for
    assert.deepEqual([task, episode, activity], ['x', 7, 'advanceEpisode'])
    assert.match(blocker.toDo, /--role sandbox on nowhere/)
  })

  test('names both the policy server and the pause of a run, each with the fix', async () => {
    const url = await silentServer(listening)
    await world.prepareRun(PLAN.run, (recipe) => ({ ...recipe, policyServer: { ...recipe.policyServer, url } }))
    const workflowId = `train/${PLAN.run}`
    await world.start('trainAgent', workflowId, { recipe: 'mini' })
    await eventually(async () => {
      const progress = await queryProgress({ connection: world.connection, workflowId })
      assert.match(progress?.phase ?? '', /publishing/)
    })
    await pauseRun({ connection: world.connection, workflowId })
    const person = await world.named(workflowId, ({ on }) => on.kind === 'person')
    assert.equal(person.toDo, `longhaul run resume ${PLAN.run}`)
    const server = await world.named(workflowId, ({ on }) => on.kind === 'policy-server')
    assert.deepEqual([server.on.name, server.for.workflowId], [url, workflowId])
    const { stdout } = await longhaul(world, 'run', 'blockers', PLAN.run)
    assert.match(stdout, /2 blockers[\s\S]*now: publishing the base policy, since 20/)
  })

  test('reports forty episodes that wait for one host as one blocker, and counts what a limit left out', async () => {
    const { run, stage, iteration, suite } = EPISODE
    const plan = { key: 'plan', sha256: suite, bytes: 1 }
    const sizes = { tasks: 10, groupSize: 4, maxReplacements: 0, maxOpenGroups: 10 }
    const place = { run, stage, iteration, suite, policy: policyRef(1) }
    // Below another root's id than that of the run beside it, whose blockers would count it.
    const workflowId = `train/forty/${stage}/0003`
    await world.start('rollout', workflowId, { ...place, ...sizes, plan })
    const blocker = await world.named(workflowId, ({ on, count }) => on.name === NOWHERE && count === 40)
    assert.match(blocker.for.task ?? '', /^task-/)
    const { connection } = world
    const look = await findBlockers({ connection, workflowId, maxWorkflows: 21 })
    // The rollout, its ten groups and ten of the forty episodes.
    assert.deepEqual([look.workflows, look.notLookedAt, look.blockers[0]?.count], [21, 30, 10])
  })

  test('names a trainer that is always killed by its failure and a frozen one by its silence', async () => {
    const policy = await importBasePolicy({
      store: world.store,
      directory: join(root, 'policies/demo-base/model'),
    })
    const train = async (run: string): Promise<string> => {
      const plan = await world.prepareRun(run, (recipe) => ({ ...recipe, ...makeTrainingRecipe() }))
      world.batches.set(run, await writeSmallBatch({ store: world.store, run, policy }))
      const workflowId = `train/${run}/rft`
      await world.start('rejectionFineTune', workflowId, publishingInput(plan, policy))
      return workflowId
    }
    const dies = await train('dies')
    const killed = await world.named(dies, ({ on }) => on.kind === 'trainer')
    assert.equal(killed.error?.code, 'Trainer.Failed')
    assert.match(killed.error?.message ?? '', /SIGKILL.*\(training, trainer job rft-/)
    assert.ok(killed.for.attempt > 1, 'it was tried again')
    await world.connection.client.workflow.getHandle(dies).terminate('seen')

    const freezes = await train('freezes')
    const frozen = await world.named(freezes, ({ on }) => on.kind === 'trainer')
    assert.match(frozen.on.name, /^job rft-/)
    assert.equal(frozen.doing, 'training')
    assert.equal(frozen.for.activity, 'runTrainingJob')
  })

  test('every question to a run ends with a code while the Temporal server does not answer', async () => {
    const [host = '', port = ''] = world.connection.address.split(':')
    const proxy = await startStallingProxy({ target: { host, port: Number(port) } })
    const { namespace } = world.connection
    const connection = await connectToTemporal({ address: `127.0.0.1:${proxy.port}`, namespace })
    try {
      proxy.stall()
      const workflowId = 'train/any'
      const isUnreachable = (error: unknown): boolean => isLonghaulError(error) && error.code === 'Temporal.Unreachable'
      await Promise.all([
        assert.rejects(withDeadline(findBlockers({ connection, workflowId }), HANG_MS, 'blockers'), isUnreachable),
        assert.rejects(withDeadline(pauseRun({ connection, workflowId }), HANG_MS, 'pause'), isUnreachable),
        withDeadline(queryProgress({ connection, workflowId }), HANG_MS, 'progress'),
      ])
    } finally {
      await connection.close()
      await proxy.close()
    }
  })
})

describe('stalled workers and engines', { skip: needsServer, concurrency: true }, () => {
  let world: StallWorld
  let scratch: string
  const listening: { close(): void }[] = []

  before(async () => {
    scratch = await mkdtemp(join(tmpdir(), 'longhaul-stalled-'))
    world = await openStallWorld({ placeOn: null })
  })

  after(async () => {
    for (const server of listening) server.close()
    await world?.close()
    await rm(scratch, { recursive: true, force: true })
  })

  test('names the socket of an engine that stops answering while tests run', async () => {
    const socket = join(scratch, 'engine.sock')
    const engine = (process.env['DOCKER_HOST'] ?? 'unix:///var/run/docker.sock').replace('unix://', '')
    const grading = Promise.withResolvers<void>()
    let isGrading = false
    const proxy = await startStallingProxy({
      target: { path: engine },
      path: socket,
      // The container is attached to and about to run: from here on only its answer is waited for.
      onAsked: (bytes) => {
        if (isGrading || !/POST \S*\/containers\/\S+\/start/.test(bytes.toString('latin1'))) return
        isGrading = true
        proxy.stall()
        grading.resolve()
      },
    })
    try {
      const plan = await world.prepareRun('frozen-engine')
      const { recipe } = (await world.store.readRecord<{ recipe: Parameters<typeof prepareSuite>[0]['recipe'] }>(
        runKeys.recipe('frozen-engine'),
      )) ?? { recipe: null }
      assert.ok(recipe)
      const small = { ...recipe, evaluate: { ...recipe.evaluate, tasks: 1 } }
      const suite = await prepareSuite({ store: world.store, loadTasks: loadTasksAndFile, recipe: small }, 'heldOut')
      const worker = await world.startRole('sandbox', 'sandbox', { DOCKER_HOST: `unix://${socket}` })
      const workflowId = 'train/frozen-engine/gate/held-out'
      await world.start('gateTasks', workflowId, { plan, suite })
      await withDeadline(grading.promise, HANG_MS, 'a grading container to run')
      const blocker = await world.named(workflowId, ({ on }) => on.kind === 'engine')
      assert.match(blocker.on.name, new RegExp(`^unix://${socket} on `))
      assert.equal(blocker.error?.code, 'Sandbox.EngineUnavailable')
      assert.deepEqual([blocker.doing, blocker.for.activity], ['running the tests', 'gateTask'])
      // It answers again: the run goes on by itself.
      proxy.resume()
      await withDeadline(world.connection.client.workflow.getHandle(workflowId).result(), HANG_MS, 'the gate to close')
      worker.kill('SIGKILL')
    } finally {
      await proxy.close()
    }
  })

  test('names the queue of a killed worker since its last heartbeat', async () => {
    const url = await silentServer(listening)
    const worker = await world.startRole('trainer', 'trainer', {})
    const workflowId = await publishOn(world, 'loses-its-worker', url)
    await eventually(async () => {
      const { blockers } = await findBlockers({ connection: world.connection, workflowId, longerThanMs: 0 })
      assert.ok(blockers.some(({ on }) => on.kind === 'policy-server'))
    })
    const killedAt = Date.now()
    worker.kill('SIGKILL')
    const blocker = await world.named(workflowId, ({ on }) => on.kind === 'worker')
    assert.deepEqual([blocker.on.name, blocker.for.activity], ['trainer', 'publishPolicy'])
    assert.ok(Date.parse(blocker.since) <= killedAt, `${blocker.since} is after the kill`)
    assert.match(blocker.toDo, /longhaul worker --role trainer/)
  })
})

/** The worker may have ended its frozen job already. */
function killIfAlive(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if (errnoOf(error) !== 'ESRCH') throw error
  }
}

/** Starts a run whose next step is to publish on the server of that address. */
async function publishOn(world: StallWorld, run: string, url: string): Promise<string> {
  const plan = await world.prepareRun(run, (recipe) => ({
    ...recipe,
    policyServer: { ...recipe.policyServer, url },
  }))
  const workflowId = `train/${run}/rft`
  await world.start('rejectionFineTune', workflowId, publishingInput(plan))
  return workflowId
}

async function silentServer(listening: { close(): void }[]): Promise<string> {
  const server = await startSilentServer()
  listening.push(server)
  return `http://127.0.0.1:${server.port}`
}

function longhaul({ connection }: StallWorld, ...args: string[]): Promise<{ code: number; stdout: string }> {
  const env = {
    ...process.env,
    LONGHAUL_TEMPORAL_ADDRESS: connection.address,
    LONGHAUL_NAMESPACE: connection.namespace,
  }
  return new Promise((resolve) => {
    execFile(process.execPath, [join(root, 'bin/longhaul.mjs'), ...args], { env, timeout: HANG_MS }, (error, stdout) =>
      resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout }),
    )
  })
}
