/** The activities of the artifacts role as a worker gets them. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { ApplicationFailure } from '@temporalio/common'
import { inActivity } from '../../test/support/activity-context.ts'
import { useOwnStore } from '../../test/support/command-line.ts'
import { rebench } from '../../test/support/datasets/published-rows.ts'
import { makeEvaluatedRun } from '../../test/support/evaluated-run.ts'
import type { ArtifactActivities } from '../contracts/activities.types.ts'
import { runKeys } from '../contracts/keys.ts'
import type { PolicyRef } from '../contracts/policy.types.ts'
import { composeRole } from './compose-role.ts'
import { PASS_THROUGH } from './connect.ts'
import { readWorkerEnvironment } from './worker-environment.ts'

test('an evaluation that has lost the record of an episode is not summarized', async (t) => {
  const { root, store, close } = await useOwnStore()
  t.after(close)
  const rows = [{ ...rebench.row('owner__thing-1'), created_at: null }]
  const attempts = [[1, 0] as const]
  const made = await makeEvaluatedRun({
    store,
    root,
    run: 'torn',
    rows,
    attempts: attempts.map((all) => [...all]),
    cutoff: null,
  })
  const { run, name, stage, suite, score } = made
  const [, second = ''] = (await store.list(`episodes/${run}/`)).filter((key) => key.endsWith('/result.json'))
  rmSync(store.path(second))
  const activities = await artifactActivities(root)
  const policy = { version: score.policy } as PolicyRef
  await assert.rejects(
    inActivity<unknown>(() => activities.summarizeEvaluation({ run, name, stage, policy, suite })),
    (error) => error instanceof ApplicationFailure && error.type === 'Artifact.Missing',
  )
})

test('the trackers of a run get its figures after a summarized evaluation and after a report', async (t) => {
  const { root, store, close } = await useOwnStore()
  t.after(close)
  const run = 'tracked'
  const directory = join(root, 'tensorboard')
  const rows = [{ ...rebench.row('owner__thing-1'), created_at: null }]
  const trackers = [{ kind: 'tensorboard' as const, directory }]
  const { name, stage, suite, score } = await makeEvaluatedRun({
    store,
    root,
    run,
    rows,
    attempts: [[1]],
    cutoff: null,
    trackers,
  })
  const activities = await artifactActivities(root)
  const policy = { version: score.policy } as PolicyRef
  const steps = [
    () => activities.summarizeEvaluation({ run, name, stage, policy, suite }),
    () => activities.writeReport({ run, durations: { total: 1 } }),
  ]
  for (const step of steps) {
    await inActivity<unknown>(step)
    const [file = ''] = readdirSync(join(directory, run))
    assert.ok(readFileSync(join(directory, run, file), 'latin1').includes('eval/held-out/pass_at_1'))
    rmSync(directory, { recursive: true })
  }
  assert.equal((await store.list(runKeys.allMeasured(run))).length, 1)
})

async function artifactActivities(root: string): Promise<ArtifactActivities> {
  const environment = readWorkerEnvironment({
    LONGHAUL_ARTIFACTS: join(root, 'store'),
    LONGHAUL_CACHE: join(root, 'cache'),
    LONGHAUL_POLICY_URL: 'http://127.0.0.1:9',
    LONGHAUL_PYTHON: 'python3',
  })
  // The artifacts role asks Temporal for nothing itself.
  const { workers } = await composeRole('artifacts', environment, {} as never, PASS_THROUGH)
  return workers[0]?.activities as ArtifactActivities
}
