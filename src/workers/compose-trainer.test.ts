/** The trainer's activities as a worker gets them: the real trainer, and real policy servers of which some are wrong. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { inActivity } from '../../test/support/activity-context.ts'
import { startSilentServer } from '../../test/support/loopback.ts'
import { eventually } from '../../test/support/hang.ts'
import { python, withoutPython, writeTwoPolicies } from '../../test/support/python.ts'
import { LONG_JOB, makeJobStore, writeTestBatch } from '../../test/support/training-jobs.ts'
import { makeTrainingRecipe } from '../../test/support/training-records.ts'
import { createWarmServers, type WarmServer } from '../../test/support/warm-servers.ts'
import { CANARY_FILE } from '../adapters/policy-server/canary.ts'
import { createPolicyClient } from '../adapters/policy-server/client.ts'
import { exitReport, leaseHolder } from '../adapters/trainer-job/job/attempt-files.ts'
import { encodeSafetensors } from '../adapters/trainer-job/batch/safetensors.ts'
import type { TrainerActivities, TrainingJobInput } from '../contracts/activities.types.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { runKeys } from '../contracts/keys.ts'
import type { PolicyRef } from '../contracts/policy.types.ts'
import type { ActivityHeartbeat } from '../contracts/waits.types.ts'
import type { TrackerRecipe } from '../contracts/trackers.types.ts'
import type { PolicyServerRecipe, Recipe } from '../contracts/recipe.types.ts'
import { livenessOf } from '../platform/processes.ts'
import { NO_ROOTS } from '../../test/support/no-roots.ts'
import { composeTrainer } from './compose-trainer.ts'
import { PASS_THROUGH } from './connect.ts'
import { readWorkerEnvironment, type WorkerEnvironment } from './worker-environment.ts'
import { putPart } from '../../test/support/record-examples.ts'

describe('trainer worker', { skip: withoutPython }, () => {
  const signal = new AbortController().signal
  let root = ''
  let store: ArtifactStore
  let base: PolicyRef
  let activities: TrainerActivities
  let dispose = async (): Promise<void> => {}
  let environment: WorkerEnvironment

  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'trainer-worker-'))
    ;({ store, base } = await makeJobStore(root))
    environment = readWorkerEnvironment({
      LONGHAUL_ARTIFACTS: join(root, 'store'),
      LONGHAUL_POLICY_URL: 'http://127.0.0.1:9',
      LONGHAUL_CACHE: join(root, 'cache'),
      LONGHAUL_PYTHON: python ?? '',
    })
    const composed = await composeTrainer(environment, PASS_THROUGH, {
      namespaceId: 'namespace-1',
      stateOf: async () => null,
      roots: NO_ROOTS,
    })
    ;({ dispose } = composed)
    const [worker] = composed.workers
    activities = worker?.activities as TrainerActivities
  })
  after(async () => {
    await dispose()
    await rm(root, { recursive: true, force: true })
  })

  test('the second of two jobs on one machine starts its trainer when the first has ended', async () => {
    const jobs = await Promise.all(['one', 'other'].map((run) => prepareJob(run, 24)))
    await Promise.all(jobs.map((job) => inActivity(() => activities.runTrainingJob(job))))
    const [earlier, later] = jobs.map(timesOf).sort((a, b) => (a[0] ?? 0) - (b[0] ?? 0))
    const ended = earlier?.at(-1) ?? Number.NaN
    assert.ok(ended <= (later?.[0] ?? 0), `one worked until ${ended}, the other from ${later?.[0]}`)
  })

  test('a job whose worker shut down is ended by the next worker if its run was terminated meanwhile', async () => {
    const job = await prepareJob('terminated', LONG_JOB)
    const controller = new AbortController()
    const left = inActivity(() => activities.runTrainingJob(job), {
      signal: controller.signal,
      isWorkerShutdown: true,
      onHeartbeat: (heartbeat) => {
        if ((heartbeat as ActivityHeartbeat).facts !== null) controller.abort()
      },
    })
    await assert.rejects(left)
    const directory = store.path(runKeys.job('terminated', 'rft', 1, 0))
    const holder = await leaseHolder(directory, 1)
    assert.equal(holder && livenessOf(holder), 'alive')
    const next = await composeTrainer(environment, PASS_THROUGH, {
      namespaceId: 'namespace-1',
      stateOf: async () => ({ kind: 'closed' }),
      roots: NO_ROOTS,
    })
    await eventually(async () => assert.equal(holder && livenessOf(holder), 'dead'))
    await next.dispose()
    assert.equal((await exitReport(directory, 1))?.code, 75)
  })

  test('a job whose MLflow never answers ends, and the other tracker gets its figures', async (t) => {
    const silent = await startSilentServer()
    t.after(() => silent.close())
    const directory = join(root, 'tensorboard')
    const mlflow = {
      kind: 'mlflow',
      url: `http://127.0.0.1:${silent.port}`,
      experiment: 'x',
      tokenVariable: null,
    } as const
    const job = await prepareJob('tracked', 4, [mlflow, { kind: 'tensorboard', directory }])
    const result = await inActivity(() => activities.runTrainingJob(job))
    assert.ok(result.steps > 0)
    const [file = ''] = readdirSync(join(directory, 'tracked'))
    const events = readFileSync(join(directory, 'tracked', file), 'latin1')
    for (const figure of ['loss', 'grad_norm', 'n_tokens']) assert.ok(events.includes(`rft/${figure}`), figure)
  })

  describe('publishing', () => {
    const warm = createWarmServers()
    const servers: WarmServer[] = []
    let older: PolicyRef
    let newer: PolicyRef

    before(async () => {
      ;[older, newer] = await writeTwoPolicies(root)
      for (const name of ['first', 'second']) {
        servers.push(await warm.start({ state: join(root, name), maxVersions: 4, faults: true }))
      }
      await writeCanary()
      const urls = servers.map(({ url }) => url)
      await storeRecipe('published', { url: urls[0] ?? '', replicas: urls.slice(1) })
    })
    after(() => warm.close())

    test('publishes when both servers have the new weights and sample from them', async () => {
      await publish(newer)
      for (const { url } of servers) {
        const served = await createPolicyClient({ kind: 'embedded', url }).served(signal)
        assert.ok(served.includes(newer.version), url)
      }
    })

    /** What it samples is scored by the weights that it should have: only drawing them tells. */
    test('does not publish and names the second server when it filters its samples', async () => {
      for (const fault of ['top-k-20', 'top-k-20-raw']) {
        await setFaults(fault)
        await assertRefused(newer, 'Model.Biased')
      }
      await setFaults()
      await publish(newer)
    })

    test('does not publish and names the second server when it has the right weights with another tokenizer', async () => {
      await setFaults('other-tokenizer')
      await assertRefused(newer, 'Model.CanaryMismatch')
      await setFaults()
    })

    /** It samples truly from weights that it should no longer have: only the trainer's own figures tell. */
    test('does not publish and names the second server when it kept old weights under the new name or read half', async () => {
      for (const [step, fault] of ['stale', 'half-load'].entries()) {
        const named = { ...newer, version: `v00001${step}-${newer.version.slice(8)}` }
        await setFaults()
        // The last one loaded is what such a server goes on with.
        await clientOf(1).load(
          { policy: { ...older, version: `v00002${step}-00000000` }, holder: 'x', leaseMs: 1 },
          signal,
        )
        await setFaults(fault)
        await assertRefused(named, 'Model.CanaryMismatch')
      }
      await setFaults()
    })

    function publish(policy: PolicyRef): Promise<void> {
      return inActivity(() => activities.publishPolicy({ run: 'published', policy }), { signal })
    }

    async function assertRefused(policy: PolicyRef, type: string): Promise<void> {
      await assert.rejects(publish(policy), (error: Error & { type?: string; details?: { server?: string }[] }) => {
        assert.deepEqual([error.type, error.details?.[0]?.server], [type, servers[1]?.url])
        return true
      })
    }

    async function setFaults(...faults: string[]): Promise<void> {
      const answer = await fetch(`${servers[1]?.url}/v1/faults`, { method: 'POST', body: JSON.stringify({ faults }) })
      assert.equal(answer.status, 200)
    }

    function clientOf(index: number) {
      return createPolicyClient({ kind: 'embedded', url: servers[index]?.url ?? '' })
    }

    /** Where both policies differ, as the trainer would write it beside the newer one. */
    async function writeCanary(): Promise<void> {
      const client = clientOf(0)
      const ids = Array.from({ length: 48 }, (_, index) => (index * 37 + 11) % 250)
      const scores: number[][] = []
      for (const policy of [older, newer]) {
        await client.load({ policy, holder: 'canary', leaseMs: 1 }, signal)
        scores.push(await client.score({ policy: policy.version, ids }, signal))
      }
      const positions = ids.slice(1).map((_id, at) => at + 1)
      const [I32, F32] = [Int32Array, Float32Array]
      const file = encodeSafetensors([
        { name: 'row_offsets', dtype: 'I64', shape: [2], data: BigInt64Array.from([0n, BigInt(ids.length)]) },
        { name: 'input_ids', dtype: 'I32', shape: [ids.length], data: I32.from(ids) },
        { name: 'position_row', dtype: 'I32', shape: [positions.length], data: I32.from(positions, () => 0) },
        { name: 'position_index', dtype: 'I32', shape: [positions.length], data: I32.from(positions) },
        { name: 'old_logprobs', dtype: 'F32', shape: [positions.length], data: F32.from(scores[0] ?? []) },
        { name: 'new_logprobs', dtype: 'F32', shape: [positions.length], data: F32.from(scores[1] ?? []) },
      ])
      await writeFile(join(fileURLToPath(newer.uri), CANARY_FILE), file)
    }
  })

  async function prepareJob(
    run: string,
    trajectories: number,
    trackers: TrackerRecipe[] = [],
  ): Promise<TrainingJobInput> {
    await storeRecipe(run, {}, trackers)
    const batch = await writeTestBatch({ store, policy: base, run, trajectories })
    return { run, stage: 'rft', kind: 'rft', iteration: 1, slice: 0, batch, policy: base }
  }

  async function storeRecipe(
    run: string,
    server: Partial<PolicyServerRecipe>,
    trackers: TrackerRecipe[] = [],
  ): Promise<void> {
    const policyServer = {
      kind: 'embedded',
      url: null,
      replicas: [],
      publish: null,
      leaseS: 60,
      patienceS: 60,
      chat: null,
    }
    const recipe = { ...structuredClone(makeTrainingRecipe()), policyServer: { ...policyServer, ...server } } as Recipe
    recipe.trackers = trackers
    recipe.trainer.stallS = 300
    recipe.trainer.timeoutS = 600
    await putPart(store, runKeys.recipe(run), { schema: 'longhaul.recipe/1', hash: run, recipe })
  }

  /** Of everything that its one attempt said, ms. */
  function timesOf({ run, stage, iteration, slice }: TrainingJobInput): number[] {
    const file = join(store.path(runKeys.job(run, stage, iteration, slice)), 'attempts/1/progress.jsonl')
    const lines = readFileSync(file, 'utf8').trim().split('\n')
    return lines.map((line) => (JSON.parse(line) as { t: number }).t)
  }
})
