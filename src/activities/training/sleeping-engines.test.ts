/**
 * Trainer and vLLM share a GPU: the engine sleeps through the training job, and the next publishing finds its process again. Where it cannot
 * sleep it is ended, and one that dies in its sleep is not started while the job has its memory.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { inActivity } from '../../../test/support/activity-context.ts'
import { HANG_MS } from '../../../test/support/hang.ts'
import { freePort } from '../../../test/support/loopback.ts'
import { makeTrainingRecipe } from '../../../test/support/training-records.ts'
import { createDirectoryStore } from '../../adapters/artifacts/directory-store.ts'
import type { EngineState, FleetPlan } from '../../adapters/engines/fleet-files.ts'
import { fleetsRoot, type Fleets, openFleets, stopAllFleets } from '../../adapters/engines/fleets.ts'
import { createPolicyClient } from '../../adapters/policy-server/client.ts'
import { runKeys } from '../../contracts/keys.ts'
import type { EnginesRecord } from '../../contracts/policy.types.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import { putToSleep } from '../../workers/connect.ts'
import { activity } from '../runtime/activity-runtime.ts'
import { type EngineDependencies, parkEngines } from './launched-engines.ts'

const SLEEPY = join(import.meta.dirname, '../../../test/support/engines/sleepy-engine.ts')
const HOST = 'trainer-1'

describe('engines that share a GPU with training jobs', () => {
  let enginesDir: string
  let fleets: Fleets
  let deps: EngineDependencies
  let runs = 0

  before(async () => {
    enginesDir = await mkdtemp(join(tmpdir(), 'longhaul-sleep-'))
    const root = fleetsRoot(enginesDir, 'namespace-1')
    fleets = openFleets(root)
    const store = createDirectoryStore({ root: join(enginesDir, 'store') })
    deps = { store, fleets, root, host: HOST, python: '', trainerEnv: {}, hasKey: false, putToSleep, leaseMs: HANG_MS }
  })
  after(async () => {
    await stopAllFleets(enginesDir)
    await rm(enginesDir, { recursive: true, force: true })
  })

  test('vLLM sleeps during the job and wakes in the documented order when a policy is loaded', async () => {
    const { plan, url } = await started()
    const [before] = await engines(plan)
    await park(plan)
    assert.deepEqual(await seen(url), ['/update_weight_version', '/sleep?level=2', '/is_sleeping'])
    const client = createPolicyClient({ kind: 'vllm', publish: 'reload', url })
    assert.deepEqual(
      await client.served(AbortSignal.timeout(HANG_MS)),
      ['asleep-until-a-load'],
      'the engine holds no policy',
    )
    const version = 'v000002-bbbbbbbb'
    const policy = { version, uri: 'file:///policies/b', manifestSha256: '', globalStep: 2 }
    const request = { policy: { ...policy, checkpointUri: null, checkpointSha256: null }, holder: 'a', leaseMs: 1 }
    await client.load(request, AbortSignal.timeout(HANG_MS))
    const asked = (await seen(url)).filter((path) => /wake|collective|pause|resume/.test(path))
    assert.deepEqual(asked, [
      '/pause?mode=abort&clear_cache=true',
      '/wake_up?tags=weights',
      '/collective_rpc',
      '/wake_up',
      '/resume',
    ])
    assert.deepEqual(await client.served(AbortSignal.timeout(HANG_MS)), [version])
    assert.deepEqual(await engines(plan), [before], 'the same process')
    // Awake it reloads as ever.
    await client.load(
      { ...request, policy: { ...request.policy, version: 'v000003-cccccccc' } },
      AbortSignal.timeout(HANG_MS),
    )
    assert.equal((await seen(url)).filter((path) => path.startsWith('/wake_up')).length, 2)
  })

  test('a second job of the same iteration leaves the engine asleep', async () => {
    const { plan, url } = await started()
    await park(plan)
    await park(plan)
    assert.equal((await seen(url)).filter((path) => path.startsWith('/sleep')).length, 2)
    assert.equal((await engines(plan)).length, 1)
  })

  test('an engine that dies asleep is started by the next plan and not during the job', async () => {
    const { plan } = await started()
    await park(plan)
    const [engine] = await engines(plan)
    assert.ok(engine?.process)
    process.kill(-engine.process.pid, 'SIGKILL')
    await until(plan, ([one]) => one?.phase === 'pausing')
    // Past the pause after which it would be started.
    await sleep(2_500)
    assert.deepEqual(
      (await engines(plan)).map(({ phase, process: one }) => [phase, one]),
      [['pausing', null]],
    )
    await fleets.want(plan)
    await until(plan, ([one]) => one?.phase === 'serving')
  })

  test('both engines are stopped when one of them does not fall asleep', async () => {
    const { plan } = await started('plain', 'awake')
    await park(plan)
    assert.deepEqual(await engines(plan), [])
  })

  test('engines are stopped for a CPU trainer, another placement and publishing by restart', async () => {
    for (const change of [
      (recipe: Recipe) => void (recipe.trainer.device = 'cpu'),
      (recipe: Recipe) => void (recipe.policyServer.publish = 'restart'),
      (recipe: Recipe) => void (recipe.policyServer.kind = 'sglang'),
    ]) {
      const { plan } = await started()
      const recipe = sharedRecipe()
      change(recipe)
      await park(plan, recipe)
      assert.deepEqual(await engines(plan), [])
    }
  })

  async function started(...hows: string[]): Promise<{ plan: FleetPlan; url: string }> {
    const run = `run-${runs++}`
    const wanted = hows.length === 0 ? ['plain'] : hows
    const all = await Promise.all(
      wanted.map(async (how, index) => {
        const port = await freePort()
        return {
          name: `engine-${index}`,
          url: `http://127.0.0.1:${port}`,
          generation: 0,
          policy: 'v000001-aaaaaaaa',
          start: { environment: {}, command: [process.execPath, SLEEPY, String(port), how] },
        }
      }),
    )
    const plan = { run, owner: 'train/run', leaseMs: HANG_MS, startTimeoutMs: HANG_MS, engines: all }
    const record: EnginesRecord = { schema: 'longhaul.engines/1', host: HOST, urls: all.map(({ url }) => url) }
    await deps.store.putRecord(runKeys.engines(run), record)
    await fleets.want(plan)
    await until(plan, (found) => found.length === all.length && found.every(({ phase }) => phase === 'serving'))
    return { plan, url: all[0]?.url ?? '' }
  }

  function park({ run }: FleetPlan, recipe = sharedRecipe()): Promise<void> {
    const parking = activity((_: object, { signal }) => parkEngines(deps, { run, recipe, signal }))
    return inActivity(() => parking({}), { signal: AbortSignal.timeout(HANG_MS) })
  }

  async function engines({ run }: FleetPlan): Promise<EngineState[]> {
    return (await fleets.look(run))?.engines ?? []
  }

  async function until(plan: FleetPlan, holds: (found: EngineState[]) => boolean): Promise<void> {
    for (const deadline = Date.now() + HANG_MS; !holds(await engines(plan)); await sleep(50)) {
      assert.ok(Date.now() < deadline, JSON.stringify(await engines(plan)))
    }
  }

  async function seen(url: string): Promise<string[]> {
    return ((await (await fetch(`${url}/seen`)).json()) as { seen: string[] }).seen
  }
})

function sharedRecipe(): Recipe {
  const recipe = structuredClone(makeTrainingRecipe())
  recipe.trainer.device = 'cuda'
  recipe.policyServer = {
    ...recipe.policyServer,
    kind: 'vllm',
    publish: null,
    launch: {
      kind: 'process',
      replicas: 1,
      placement: 'shared',
      host: '127.0.0.1',
      port: null,
      program: null,
      arguments: [],
      environment: {},
      gpus: null,
      startTimeoutS: 300,
    },
  }
  return recipe
}
