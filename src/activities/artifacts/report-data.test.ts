import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { useOwnStore } from '../../../test/support/command-line.ts'
import { rebench } from '../../../test/support/datasets/published-rows.ts'
import { makeEvaluatedRun } from '../../../test/support/evaluated-run.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { gatherReportData } from './report-data.ts'

let root: string
let store: ArtifactStore
let close: () => Promise<void>

before(async () => {
  ;({ root, store, close } = await useOwnStore())
})

after(() => close())

test('where evaluations on the way play quick tasks, every held-out point of the curve is of those; the score is of all', async () => {
  const rows = [1, 2, 3, 4].map((index) => ({ ...rebench.row(`owner__thing-${index}`), created_at: null }))
  const quick = ['owner__thing-1', 'owner__thing-4']
  const attempts: (0 | 1)[][] = [[1], [1], [1], [0]]
  await makeEvaluatedRun({ store, root, run: 'quick', rows, attempts, cutoff: null, quick })
  const { curve, evaluations } = await gatherReportData(store, { run: 'quick', durations: {} })
  assert.deepEqual(
    curve.map(({ mean, tasks }) => [mean, tasks]),
    [[0.5, 2]],
  )
  assert.deepEqual([evaluations[0]?.score.passAt1, evaluations[0]?.score.tasks], [0.75, 4])
})
