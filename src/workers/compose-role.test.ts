/** The activities of the artifacts role as a worker gets them. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
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
  const environment = readWorkerEnvironment({
    LONGHAUL_ARTIFACTS: join(root, 'store'),
    LONGHAUL_CACHE: join(root, 'cache'),
    LONGHAUL_POLICY_URL: 'http://127.0.0.1:9',
    LONGHAUL_PYTHON: 'python3',
  })
  // The artifacts role asks Temporal for nothing itself.
  const { workers } = await composeRole('artifacts', environment, {} as never, PASS_THROUGH)
  const activities = workers[0]?.activities as ArtifactActivities
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
