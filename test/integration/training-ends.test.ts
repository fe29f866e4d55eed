/**
 * How training jobs end, from the real trainer through its launcher and activity to the workflow: what must not be trained on
 * stops the stage with its code and publishes nothing, what stands still is named, stopped and continued.
 */
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { ApplicationFailure } from '@temporalio/common'
import { importBasePolicy } from '../../src/adapters/trainer-job/job/policy-directory.ts'
import { findBlockers } from '../../src/client/index.ts'
import { runKeys } from '../../src/contracts/keys.ts'
import type { PolicyRef } from '../../src/contracts/policy.types.ts'
import type { Recipe } from '../../src/contracts/recipe.types.ts'
import type { TrainingRecord } from '../../src/contracts/training.types.ts'
import { eventually, HANG_MS } from '../support/hang.ts'
import { needsServer } from '../support/own-namespace.ts'
import { python, withoutPython } from '../support/python.ts'
import { openStallWorld, publishingInput, type StallWorld } from '../support/stalls/stall-world.ts'
import { LONG_JOB, writeTestBatch } from '../support/training-jobs.ts'
import { makeTrainingRecipe } from '../support/training-records.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** Longer than the trainer needs to load torch on a busy machine, where it says nothing. */
const STALL_S = 60

describe('failures of training jobs', { skip: needsServer || withoutPython }, () => {
  let world: StallWorld
  let base: PolicyRef
  let worker: ChildProcess

  const startWorker = async (): Promise<void> => {
    worker = await world.startRole('trainer', 'trainer', { LONGHAUL_PYTHON: python ?? '' })
  }

  before(async () => {
    world = await openStallWorld({ placeOn: null })
    base = await importBasePolicy({ store: world.store, directory: join(root, 'policies/demo-base/model') })
    await startWorker()
  })

  after(() => world?.close())

  test('exploding weights end fine-tuning with Trainer.Diverged, and its first policy stays the last', async () => {
    const workflowId = await train('flies-away', 'rft', (recipe) => {
      // The first update sends every weight away; the second gradient is not finite.
      if (recipe.rft !== null) recipe.rft.optim.lr = 1e30
    })
    const { type, message } = await failureOf(workflowId)
    assert.equal(type, 'Trainer.Diverged')
    assert.match(message, /Expected a finite grad_norm at global step 2/)
    assert.deepEqual(publishedPolicies(), [`${base.version}.json`])
    assert.equal(
      exitCodesOf('flies-away').filter((code) => code === 77).length,
      1,
      'a diverged job must not be attempted again',
    )
  })

  test('a sampler with another model ends reinforcement with Trainer.Diverged, and its policy is not published', async () => {
    // The batch says half a nat for tokens to which the policy gives next to nothing.
    const workflowId = await train('another-model', 'dapo')
    const { type, message } = await failureOf(workflowId)
    assert.equal(type, 'Trainer.Diverged')
    assert.match(message, /same model: k1 is .*, above 1, at optimizer step 1/)
    assert.deepEqual(publishedPolicies(), [`${base.version}.json`])
    const record = await world.store.readRecord<TrainingRecord>(runKeys.training('another-model', 'dapo-1', 1, 0))
    assert.ok(record?.alarms.some(({ metric }) => metric === 'k1'))
  })

  test('a stalled trainer is named, stopped as Trainer.Stalled and continued from its last step', async () => {
    const run = 'stands-still'
    const workflowId = await train(run, 'rft', ({ trainer }) => Object.assign(trainer, { stallS: STALL_S }), LONG_JOB)
    await eventually(async () => assert.ok(eventsOf(run, 1).includes('checkpoint')))
    const { pid } = JSON.parse(readFileSync(join(jobOf(run), 'leases/1.json'), 'utf8')) as { pid: number }
    process.kill(pid, 'SIGSTOP')
    await eventually(async () => {
      const { blockers } = await findBlockers({ connection: world.connection, workflowId, longerThanMs: 10_000 })
      assert.deepEqual(
        blockers.map(({ on, doing, for: { activity } }) => [on.kind, doing, activity]),
        [['trainer', 'training', 'runTrainingJob']],
      )
      assert.match(blockers[0]?.on.name ?? '', /^job rft-/)
    })
    await eventually(async () => {
      const { raw } = await world.connection.client.workflow.getHandle(workflowId).describe()
      const [pending] = raw.pendingActivities ?? []
      assert.equal(pending?.lastFailure?.applicationFailureInfo?.type, 'Trainer.Stalled')
      assert.match(pending?.lastFailure?.message ?? '', new RegExp(`no progress for ${STALL_S}000 ms`))
    })
    // Told to stop it saved what it had done, so that nothing is done twice.
    await eventually(async () => assert.ok(eventsOf(run, 2).includes('done')))
    assert.ok(eventsOf(run, 2).includes('resumed'))
    const steps = [1, 2].flatMap((fence) => eventsOf(run, fence)).filter((event) => event === 'opt_step')
    assert.equal(steps.length, LONG_JOB)
  })

  /** Temporal tells nobody: the activity has no worker, and a terminated workflow cleans nothing up. */
  test('a run that is terminated while its trainer worker is dead keeps its job until the next worker starts', async () => {
    const run = 'left-behind'
    const workflowId = await train(run, 'rft', undefined, LONG_JOB)
    await eventually(async () => assert.ok(eventsOf(run, 1).includes('checkpoint')))
    const { pid } = JSON.parse(readFileSync(join(jobOf(run), 'leases/1.json'), 'utf8')) as { pid: number }
    // It must not end by itself meanwhile.
    process.kill(pid, 'SIGSTOP')
    const died = once(worker, 'exit')
    worker.kill('SIGKILL')
    await died
    await world.connection.client.workflow.getHandle(workflowId).terminate('enough')
    await startWorker()
    await eventually(async () => assert.deepEqual(exitCodesOf(run), [75]))
  })

  /** Starts a stage whose next step is a training job. */
  async function train(
    run: string,
    kind: 'rft' | 'dapo',
    change: (recipe: Recipe) => unknown = () => undefined,
    trajectories = 4,
  ): Promise<string> {
    const plan = await world.prepareRun(run, (mini) => {
      const recipe = { ...mini, ...structuredClone(makeTrainingRecipe()) }
      // Nothing stalls by itself, however busy the machine.
      recipe.trainer.stallS = HANG_MS / 1000
      change(recipe)
      return recipe
    })
    const iteration = kind === 'rft' ? 0 : 1
    world.batches.set(
      run,
      await writeTestBatch({ store: world.store, run, kind, iteration, policy: base, trajectories }),
    )
    const [type, stage] = kind === 'rft' ? ['rejectionFineTune', 'rft'] : ['reinforce', 'dapo-1']
    const workflowId = `train/${run}/${stage}`
    await world.start(type, workflowId, { ...publishingInput(plan, base), stageIndex: 0 })
    return workflowId
  }

  /** The innermost failure with a code. */
  async function failureOf(workflowId: string): Promise<ApplicationFailure> {
    try {
      await world.connection.client.workflow.getHandle(workflowId).result()
    } catch (error) {
      for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
        if (cause instanceof ApplicationFailure) return cause
      }
    }
    throw new Error(`Expected ${workflowId} to fail with a code`)
  }

  function publishedPolicies(): string[] {
    return readdirSync(join(world.artifacts, 'policies')).filter((name) => name.endsWith('.json'))
  }

  function jobOf(run: string): string {
    return world.store.path(runKeys.job(run, 'rft', 0, 0))
  }

  /** Of all its attempts; null for one that said nothing. */
  function exitCodesOf(run: string): (number | null)[] {
    const attempts = join(jobOf(run), 'attempts')
    return readdirSync(attempts).map((fence) => {
      const path = join(attempts, fence, 'exit.json')
      return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as { code: number }).code : null
    })
  }

  function eventsOf(run: string, fence: number): string[] {
    const lines = readFileSync(join(jobOf(run), `attempts/${fence}/progress.jsonl`), 'utf8').split('\n')
    return lines.filter((line) => line !== '').map((line) => (JSON.parse(line) as { event: string }).event)
  }
})
