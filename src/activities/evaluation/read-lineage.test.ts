import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { longhaul, useOwnStore } from '../../../test/support/command-line.ts'
import { rebench } from '../../../test/support/datasets/published-rows.ts'
import { makeEvaluatedRun } from '../../../test/support/evaluated-run.ts'
import { makeTrainingRecipe } from '../../../test/support/training-records.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { RunLineage } from '../../contracts/costs.types.ts'
import type { VerdictRecord } from '../../contracts/episodes.types.ts'
import { episodeId, episodeKeys, policyKeys, runKeys } from '../../contracts/keys.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import { sha256Hex } from '../../platform/hash.ts'
import type { JsonReport } from '../../report/json-report.ts'
import { recordCode } from '../run/record-code.ts'
import { readOrThrow } from '../runtime/stored-records.ts'
import { promote } from '../training/policies.ts'
import { recordJob, recordTraining } from '../training/record-training.ts'
import { recomputeReport } from './recompute-report.ts'
import { gatherReportData } from './report-data.ts'
import { putPart } from '../../../test/support/record-examples.ts'

let store: ArtifactStore
let root: string
let close: () => Promise<void>

before(async () => {
  ;({ root, store, close } = await useOwnStore())
})

after(() => close())

const policy = (step: number, letter: string): PolicyRef => ({
  version: `v${String(step).padStart(6, '0')}-${letter.repeat(8)}`,
  uri: '',
  manifestSha256: letter.repeat(64),
  globalStep: step,
  checkpointUri: null,
  checkpointSha256: null,
})
const [BASE, FIRST, SECOND] = [policy(0, 'a'), policy(2, 'b'), policy(5, 'c')]

const rows = [1, 2].map((index) => ({ ...rebench.row(`owner__thing-${index}`), created_at: null }))

async function lineageOf(run: string): Promise<RunLineage> {
  return (await gatherReportData(store, { run, durations: {} })).lineage
}

const jobOf = (run: string, iteration: number, parent: PolicyRef) => ({
  run,
  stage: 'dapo-1',
  kind: 'dapo' as const,
  iteration,
  slice: 0,
  policy: parent,
  batch: { key: 'batch', sha256: 'dd'.repeat(32), bytes: 1 },
})

test('a score names its policies up to the base, also those of other runs, and its promotion', async () => {
  const train = async (run: string, iteration: number, parent: PolicyRef, trained: PolicyRef): Promise<void> => {
    const job = { key: 'key', jobDirectory: root, layout: { nodes: 1, ranksPerNode: 1, device: 'cpu' as const } }
    await recordJob({ store, input: jobOf(run, iteration, parent), job, trained })
  }
  await train('earlier', 1, BASE, FIRST)
  await train('chained', 1, FIRST, SECOND)
  // The same job on another host: the first word stays.
  await train('later', 9, FIRST, SECOND)
  await putPart(store, policyKeys.ref(BASE.version), BASE)
  await makeEvaluatedRun({ store, root, run: 'chained', rows, attempts: [[1], [0]], cutoff: null, policy: SECOND })
  const { score } = (await gatherReportData(store, { run: 'chained', durations: {} })).evaluations[0] ?? {}
  assert.ok(score)
  await promote(store, { run: 'chained', policy: SECOND, score })
  const { evaluations, policies } = await lineageOf('chained')
  const hash = ({ version, manifestSha256 }: PolicyRef) => ({ version, manifestSha256 })
  assert.deepEqual(evaluations[0]?.policies, [BASE, FIRST, SECOND].map(hash))
  assert.deepEqual(policies, [
    { ...hash(BASE), parent: null, by: null, promotion: null },
    { ...hash(FIRST), parent: BASE.version, by: { run: 'earlier', stage: 'dapo-1', iteration: 1 }, promotion: null },
    { ...hash(SECOND), parent: FIRST.version, by: { run: 'chained', stage: 'dapo-1', iteration: 1 }, promotion: 1 },
  ])
})

test('policies of an earlier version without parents follow the order of the run’s jobs', async () => {
  const run = 'old'
  const [third, fourth] = [policy(3, 'd'), policy(7, 'e')]
  const recipe = makeTrainingRecipe()
  // The later job first: the store lists them by stage.
  await recordTraining({ store, recipe, job: jobOf(run, 2, third), policy: fourth.version, metrics: [] })
  await recordTraining({ store, recipe, job: jobOf(run, 1, BASE), policy: third.version, metrics: [] })
  await putPart(store, runKeys.policy(run, 'base'), BASE)
  await makeEvaluatedRun({ store, root, run, rows, attempts: [[1], [0]], cutoff: null, policy: fourth })
  const { evaluations, code } = await lineageOf(run)
  assert.deepEqual(
    evaluations[0]?.policies.map(({ version, manifestSha256 }) => [version, manifestSha256]),
    // Nothing was published of the third.
    [
      [BASE.version, BASE.manifestSha256],
      [third.version, null],
      [fourth.version, fourth.manifestSha256],
    ],
  )
  assert.deepEqual(code, [])
})

test('names data by revision or hash, images by sorted digests and grading by profile; absent facts are unknown', async () => {
  const run = 'data'
  await makeEvaluatedRun({ store, root, run, rows, attempts: [[1], ['infra']], cutoff: null, policy: policy(0, 'f') })
  const [before] = (await lineageOf(run)).evaluations
  assert.match(before?.suite ?? '', /^[0-9a-f]{64}$/)
  assert.match(before?.revision ?? '', /^[0-9a-f]{64}$/, 'the hash of the file')
  assert.deepEqual(before?.images, { count: 0, sha256: sha256Hex(''), unknown: 2 })
  assert.deepEqual(before?.grading, ['fork-4.0.3'])
  // As graders of this version leave it.
  const place = { run, stage: 'eval-nightly', iteration: 0, taskId: 'owner__thing-1', index: 0 }
  const key = episodeKeys.verdict(episodeId(place))
  const verdict = await readOrThrow<VerdictRecord>(store, key)
  await rm(store.path(key))
  const provenance = { profileRevision: 3 } as unknown as NonNullable<VerdictRecord['provenance']>
  await putPart(store, key, { ...verdict, image: 'sha256:11', provenance })
  const [found] = (await lineageOf(run)).evaluations
  assert.deepEqual(found?.images, { count: 1, sha256: sha256Hex('sha256:11\n'), unknown: 1 })
  assert.deepEqual(found?.grading, ['fork-4.0.3 r3'])
})

test('the code of a run is recorded when it changes, and the report is recomputed with equal bytes', async () => {
  const run = 'code'
  const code = { version: '0.1.0', revision: 'ab'.repeat(20), filesSha256: 'cd'.repeat(32), node: 'v24.0.0' }
  const changed = { ...code, revision: null, filesSha256: 'ef'.repeat(32) }
  for (const resolved of [code, code, changed, changed, code]) await recordCode(store, { run, code: resolved })
  await makeEvaluatedRun({ store, root, run, rows, attempts: [[1], [0]], cutoff: null, policy: policy(0, '0') })
  assert.deepEqual((await lineageOf(run)).code, [code, changed, code])
  const files = await recomputeReport(store, run)
  const { stdout } = await longhaul('report', run)
  assert.match(stdout, /^What the run cost\n.*sandbox s.*\n.*\n^eval-nightly .*\n^whole run /m)
  assert.match(stdout, /No money: the recipe has no prices/)
  assert.match(stdout, /^What the scores rest on\n.*\n.*\n^nightly +v000000-00000000 /m)
  assert.match(
    stdout,
    /Resolved by Longhaul 0\.1\.0 \(commit abababababab, files cdcdcdcdcdcd\); then by .*no checkout/,
  )
  const json = JSON.parse((await longhaul('report', run, '--json')).stdout) as JsonReport
  assert.deepEqual(json.lineage.code, [code, changed, code])
  assert.equal(json.costs.whole.episodes, 2)
  assert.ok(files.length >= 3 && files.every(({ state }) => state === 'same'), JSON.stringify(files))
})
