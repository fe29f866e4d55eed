/** Engines that a trainer worker launches: the embedded server as a process, the real activities, no person. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { inActivity } from '../../test/support/activity-context.ts'
import { HANG_MS } from '../../test/support/hang.ts'
import { python, withoutPython, writeTwoPolicies } from '../../test/support/python.ts'
import { makeJobStore, writeTestBatch } from '../../test/support/training-jobs.ts'
import { makeTrainingRecipe } from '../../test/support/training-records.ts'
import type { EngineState } from '../adapters/engines/fleet-files.ts'
import { fleetsRoot, stopAllFleets, type Fleets, openFleets } from '../adapters/engines/fleets.ts'
import { createPolicyClient } from '../adapters/policy-server/client.ts'
import type { TrainerActivities } from '../contracts/activities.types.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { runKeys } from '../contracts/keys.ts'
import { NEUTRAL_SAMPLING } from '../contracts/neutral-sampling.ts'
import type { EnginesRecord, PolicyRef, SampleRequest } from '../contracts/policy.types.ts'
import type { EngineLaunchRecipe, Recipe } from '../contracts/recipe.types.ts'
import type { OwnerState } from '../domain/orphaned-resources.ts'
import { isAlive, listProcesses, signalProcess } from '../platform/processes.ts'
import type { Composed } from './compose-role.ts'
import { NO_ROOTS } from '../../test/support/no-roots.ts'
import { composeTrainer } from './compose-trainer.ts'
import { PASS_THROUGH, policyClientsOf } from './connect.ts'
import { createRecipeReader } from '../activities/runtime/stored-records.ts'
import { readWorkerEnvironment, type WorkerEnvironment } from './worker-environment.ts'
import { putPart } from '../../test/support/record-examples.ts'

const NAMESPACE_ID = 'namespace-1'

describe('launched engines', { skip: withoutPython }, () => {
  const signal = AbortSignal.timeout(4 * HANG_MS)
  const composed: Composed[] = []
  let root = ''
  let store: ArtifactStore
  let base: PolicyRef
  let older: PolicyRef
  let newer: PolicyRef
  let environment: WorkerEnvironment
  let activities: TrainerActivities
  let fleets: Fleets
  let owner: OwnerState | null = null

  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'launched-engines-'))
    ;({ store, base } = await makeJobStore(root))
    ;[older, newer] = await writeTwoPolicies(root)
    environment = readWorkerEnvironment({
      LONGHAUL_ARTIFACTS: join(root, 'store'),
      LONGHAUL_POLICY_URL: 'http://127.0.0.1:9',
      LONGHAUL_CACHE: join(root, 'cache'),
      LONGHAUL_PYTHON: python ?? '',
    })
    fleets = openFleets(fleetsRoot(environment.enginesDir, NAMESPACE_ID))
    activities = await startWorker()
  })
  after(async () => {
    await Promise.all(composed.map(({ dispose }) => dispose()))
    await stopAllFleets(environment.enginesDir)
    await rm(root, { recursive: true, force: true })
  })

  test('two replicas are published twice without a person and end with the run', async () => {
    await storeRecipe('two', { replicas: 2 })
    await publish('two', older)
    const before = await enginesOf('two')
    await publish('two', newer)
    assert.deepEqual(await enginesOf('two'), before, 'a reload in place restarts no engine')
    for (const { url } of before) {
      const served = await createPolicyClient({ kind: 'embedded', url }).served(signal)
      assert.ok(served.includes(newer.version), url)
    }
    await release('two')
    for (const { process: identity } of before)
      assert.ok(identity === null || !isAlive({ ...identity, startTime: identity.pidStart ?? '' }))
    assert.deepEqual(leftBehind(), [])
  })

  test('a killed replica comes back with its policy, and each sampled session gets the same tokens', async () => {
    await storeRecipe('killed', { replicas: 2 })
    await publish('killed', newer)
    const pool = await policyClientsOf(
      environment,
      { store, recipes: createRecipeReader(store) },
      (client) => client,
    )('killed')
    const sessions = Array.from({ length: 8 }, (_, index) => `killed/rft/0001/task/${index}`)
    const ask = () => Promise.all(sessions.map((session) => pool.sample(request(session), signal)))
    const told = await ask()
    const [victim] = await enginesOf('killed')
    assert.ok(victim?.process)
    const asked = ask()
    process.kill(-victim.process.pid, 'SIGKILL')
    assert.deepEqual(
      (await asked).map(({ ids }) => ids),
      told.map(({ ids }) => ids),
    )
    assert.deepEqual(
      (await ask()).map(({ ids }) => ids),
      told.map(({ ids }) => ids),
    )
    await until('killed', ([one]) => one?.phase === 'serving' && one.process?.pid !== victim.process?.pid)
    const sample = await createPolicyClient({ kind: 'embedded', url: victim.url }).sample(request('x'), signal)
    assert.deepEqual([sample.policy, sample.ids], [newer.version, told[0]?.ids])
    await release('killed')
  })

  test('another worker finds running engines, and the end of its run stops them', async () => {
    await storeRecipe('adopted', { replicas: 1 })
    await publish('adopted', older)
    const before = await enginesOf('adopted')
    const next = await startWorker()
    await inActivity(() => next.publishPolicy({ run: 'adopted', policy: older }), { signal })
    assert.deepEqual(await enginesOf('adopted'), before)
    await inActivity(() => next.releasePolicies({ run: 'adopted' }), { signal })
    assert.deepEqual(leftBehind(), [])
  })

  test('the worker replaces a killed keeper, and the engines serve again', async () => {
    await storeRecipe('keeper', { replicas: 1 })
    await publish('keeper', older)
    const { keeper } = (await fleets.look('keeper')) ?? {}
    signalProcess({ pid: keeper?.pid ?? 0, startTime: keeper?.pidStart ?? '' }, 'SIGKILL')
    await publish('keeper', newer)
    const [engine] = await enginesOf('keeper')
    assert.ok(
      (await createPolicyClient({ kind: 'embedded', url: engine?.url ?? '' }).served(signal)).includes(newer.version),
    )
    await release('keeper')
  })

  test('an engine that has sampled wrongly since it read the policy is restarted and published', async () => {
    await storeRecipe('wrong', { replicas: 1, arguments: ['--faults'] })
    await publish('wrong', older)
    const [before] = await enginesOf('wrong')
    const faults = await fetch(`${before?.url}/v1/faults`, {
      method: 'POST',
      body: JSON.stringify({ faults: ['top-k-20'] }),
    })
    assert.equal(faults.status, 200)
    await publish('wrong', newer)
    const [engine] = await enginesOf('wrong')
    assert.equal(engine?.generation, (before?.generation ?? Number.NaN) + 1)
    await release('wrong')
  })

  test('shared placement: a training job finds no engine, and the next publishing starts them again', async () => {
    await storeRecipe('shared', { replicas: 1, placement: 'shared' })
    await publish('shared', older)
    const seen: number[] = []
    const looking = setInterval(() => void enginesOf('shared').then((all) => seen.push(all.length)), 20)
    const batch = await writeTestBatch({ store, policy: base, run: 'shared', trajectories: 4 })
    const job = { run: 'shared', stage: 'rft', kind: 'rft', iteration: 1, slice: 0, batch, policy: base } as const
    await inActivity(() => activities.runTrainingJob(job), { signal })
    clearInterval(looking)
    assert.deepEqual([...new Set(seen)], [1, 0], 'parked once, before the job')
    await publish('shared', newer)
    assert.equal((await enginesOf('shared')).length, 1)
    await release('shared')
  })

  test('the worker of another namespace with the same directory gets engines of its own', async () => {
    await storeRecipe('shared-name', { replicas: 1 })
    await publish('shared-name', older)
    const before = await enginesOf('shared-name')
    const asked: string[] = []
    const stateOf = async (workflowId: string): Promise<OwnerState> => {
      asked.push(workflowId)
      return { kind: 'unknown' }
    }
    const stranger = { namespaceId: 'namespace-2', stateOf }
    await startWorker(stranger)
    // It has looked once when it has stopped.
    await composed.pop()?.dispose()
    assert.deepEqual([asked, await enginesOf('shared-name')], [[], before])
    // Its own run of that name: its engines end with it, and no others.
    const known = await startWorker({ ...stranger, stateOf: async () => ({ kind: 'running', runId: 'its-own' }) })
    await inActivity(() => known.releasePolicies({ run: 'shared-name' }), { signal })
    assert.deepEqual(await enginesOf('shared-name'), before)
    await release('shared-name')
  })

  test('the worker ends the engines of a run whose workflow closed without a message', async () => {
    await storeRecipe('terminated', { replicas: 1 })
    await publish('terminated', older)
    owner = { kind: 'closed' }
    for (const deadline = Date.now() + HANG_MS; leftBehind().length > 0; await sleep(100)) {
      assert.ok(Date.now() < deadline, leftBehind().join('\n'))
    }
    owner = null
    assert.deepEqual(await fleets.list(), [])
  })

  test('a refused flag gives one error with run, host, flag and log, and leaves no engine', async () => {
    await storeRecipe('flag', { replicas: 2, arguments: ['--no-such-flag'] })
    await assert.rejects(publish('flag', older), {
      type: 'Model.EngineFailed',
      nonRetryable: true,
      message:
        /engine-\d of flag did not start on trainer-1: .*does not know --no-such-flag.*\[url=http:[^,]*, log=.*\.log\]/,
    })
    await release('flag')
    assert.deepEqual(leftBehind(), [])
  })

  test('a flag that Longhaul sets itself is refused before anything starts', async () => {
    await storeRecipe('twice', { replicas: 1, arguments: ['--port', '1'] })
    await assert.rejects(publish('twice', older), {
      type: 'Config.Invalid',
      message: /got --port, which Longhaul sets/,
    })
    assert.deepEqual(await fleets.list(), [])
  })

  test('an attempt fails as retryable and names the host when the engines belong to another host', async () => {
    await storeRecipe('elsewhere', { replicas: 1 })
    const record: EnginesRecord = { schema: 'longhaul.engines/1', host: 'trainer-2', urls: ['http://127.0.0.1:1'] }
    await putPart(store, runKeys.engines('elsewhere'), record)
    await assert.rejects(publish('elsewhere', older), {
      type: 'Model.Unavailable',
      nonRetryable: false,
      message: /a trainer worker on trainer-2/,
    })
    assert.deepEqual(await fleets.list(), [])
  })

  async function startWorker({
    namespaceId = NAMESPACE_ID,
    stateOf = async (_workflowId: string) => owner,
  } = {}): Promise<TrainerActivities> {
    const owners = { namespaceId, stateOf, roots: NO_ROOTS }
    const one = await composeTrainer({ ...environment, hostId: 'trainer-1' }, PASS_THROUGH, owners)
    composed.push(one)
    return one.workers[0]?.activities as TrainerActivities
  }

  function publish(run: string, policy: PolicyRef): Promise<void> {
    return inActivity(() => activities.publishPolicy({ run, policy }), { signal })
  }

  function release(run: string): Promise<void> {
    return inActivity(() => activities.releasePolicies({ run }), { signal })
  }

  async function enginesOf(run: string): Promise<EngineState[]> {
    return (await fleets.look(run))?.engines ?? []
  }

  async function until(run: string, holds: (engines: EngineState[]) => boolean): Promise<void> {
    for (const deadline = Date.now() + HANG_MS; !holds(await enginesOf(run)); await sleep(100)) {
      assert.ok(Date.now() < deadline, JSON.stringify(await enginesOf(run)))
    }
  }

  /** Keepers and servers of this test. */
  function leftBehind(): string[] {
    return listProcesses()
      .map(({ command }) => command)
      .filter((command) => command.includes(environment.enginesDir))
  }

  function request(session: string): SampleRequest {
    return {
      policy: newer.version,
      promptIds: [10, 20, 30, 40],
      maxTokens: 24,
      seed: 7,
      sampling: NEUTRAL_SAMPLING,
      stopTokenIds: [258],
      session,
    }
  }

  async function storeRecipe(run: string, launch: Partial<EngineLaunchRecipe>): Promise<void> {
    const policyServer: Recipe['policyServer'] = {
      kind: 'embedded',
      url: null,
      replicas: [],
      launch: {
        kind: 'process',
        replicas: 1,
        placement: 'separate',
        host: '127.0.0.1',
        port: null,
        program: null,
        arguments: [],
        environment: {},
        gpus: null,
        startTimeoutS: 300,
        ...launch,
      },
      publish: null,
      leaseS: 600,
      patienceS: 60,
      chat: null,
    }
    const recipe: Recipe = { ...structuredClone(makeTrainingRecipe()), policyServer }
    recipe.trainer.stallS = 300
    recipe.trainer.timeoutS = 600
    await putPart(store, runKeys.recipe(run), { schema: 'longhaul.recipe/1', hash: run, recipe })
  }
})
