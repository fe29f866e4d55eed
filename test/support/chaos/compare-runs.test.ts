/** Chaos is only worth what its comparison would notice: each fault is made here once. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compareRuns } from './compare-runs.ts'
import type { EpisodeDigest, JobDigest, RunDigest } from './run-digest.ts'

const EPISODE: EpisodeDigest = {
  id: 'eval-nightly/0000/task/00',
  disposition: 'submitted',
  failure: null,
  turns: ['zero', 'one', 'two'],
  verdict: '{"kind":"resolved"}',
  patch: 'a',
  result: '{"verdict":"resolved","turns":3}',
}

const JOB: JobDigest = {
  id: 'dapo-1/iterations/0001/batch-00',
  batch: '{"trajectories":["00"]}',
  steps: ['{"global_step":1,"loss":0.5}'],
  weights: 'model.safetensors ab',
}

const quiet: RunDigest = {
  episodes: [EPISODE],
  ledgers: ['evaluated'],
  fates: new Map([[EPISODE.id, 'evaluated']]),
  jobs: [JOB],
  evaluations: ['{"passAt1":1}'],
}

function hurt(change: Partial<EpisodeDigest>, ...more: EpisodeDigest[]): RunDigest {
  return { ...quiet, episodes: [{ ...EPISODE, ...change }, ...more] }
}

const lost: Partial<EpisodeDigest> = {
  disposition: 'infra',
  failure: 'Artifact.Corrupt',
  turns: ['zero'],
  verdict: null,
  patch: null,
  result: '{"verdict":null,"turns":1}',
}

const NOTHING: RunDigest = { episodes: [], ledgers: [], fates: new Map(), jobs: [], evaluations: [] }

test('accepts equal records', () => {
  assert.deepEqual(compareRuns({ quiet, hurt: quiet, expects: 'identical' }), [])
})

const DIFFERENCES: readonly [what: string, change: Partial<EpisodeDigest>, said: RegExp][] = [
  ['a turn saw something else', { turns: ['zero', 'one', 'other'] }, /turn 2 differs/],
  ['a turn is missing', { turns: ['zero', 'one'] }, /2 turns instead of 3/],
  ['the verdict changed', { verdict: '{"kind":"unresolved"}' }, /the verdict differs/],
  ['the patch changed', { patch: 'b' }, /the patch differs/],
  ['the result changed', { result: '{"verdict":"resolved","turns":4}' }, /the result differs/],
  ['the episode was lost', lost, /1 turns instead of 3 \(infra Artifact.Corrupt\)/],
]

for (const [what, change, said] of DIFFERENCES) {
  test(`reports a difference where the records must be identical: ${what}`, () => {
    assert.match(compareRuns({ quiet, hurt: hurt(change), expects: 'identical' }).join('\n'), said)
  })
}

test('reports a missing episode, an extra one without a lost one, and a different ledger', () => {
  assert.match(compareRuns({ quiet, hurt: { ...quiet, episodes: [] }, expects: 'identical' }).join(), /is missing/)
  const extra = { ...EPISODE, id: 'eval-nightly/0000/task/01' }
  assert.match(compareRuns({ quiet, hurt: hurt({}, extra), expects: 'replaced' }).join(), /not in the run/)
  assert.match(
    compareRuns({ quiet, hurt: { ...quiet, ledgers: [] }, expects: 'identical' }).join(),
    /the ledger differs/,
  )
})

test('allows a lost episode and its replacement, but no verdict for it and no other turns', () => {
  const replacement = { ...EPISODE, id: 'eval-nightly/0000/task/01' }
  assert.deepEqual(compareRuns({ quiet, hurt: hurt(lost, replacement), expects: 'replaced' }), [])
  const rewarded = hurt({ ...lost, result: '{"verdict":"unresolved"}' }, replacement)
  assert.match(compareRuns({ quiet, hurt: rewarded, expects: 'replaced' }).join(), /infra and has a verdict/)
  const other = hurt({ ...lost, turns: ['other'] }, replacement)
  assert.match(compareRuns({ quiet, hurt: other, expects: 'replaced' }).join(), /turn 0 differs/)
})

test('a cancelled run may have only a beginning of the records and may lack episodes', () => {
  const cancelled = { ...lost, disposition: 'cancelled', failure: null }
  assert.deepEqual(compareRuns({ quiet, hurt: hurt(cancelled), expects: 'cancelled' }), [])
  assert.deepEqual(compareRuns({ quiet, hurt: NOTHING, expects: 'cancelled' }), [])
  const finished = hurt({ patch: 'b' })
  assert.match(compareRuns({ quiet, hurt: finished, expects: 'cancelled' }).join(), /the patch differs/)
})

const TRAININGS: readonly [what: string, change: Partial<JobDigest>, said: RegExp][] = [
  ['another batch', { batch: '{"trajectories":["01"]}' }, /the batch differs/],
  ['a step more', { steps: [...(JOB.steps ?? []), '{"global_step":2,"loss":0.4}'] }, /2 optimizer steps instead of 1/],
  ['another loss', { steps: ['{"global_step":1,"loss":0.6}'] }, /step 1 differs/],
  ['a step applied twice and counted once', { weights: 'model.safetensors cd' }, /the weights differ/],
  ['a job that never ended', { steps: null, weights: null }, /no optimizer steps instead of 1/],
]

for (const [what, change, said] of TRAININGS) {
  test(`reports a training difference in an identical run and in one restarted without a loss: ${what}`, () => {
    const other = { ...quiet, jobs: [{ ...JOB, ...change }] }
    for (const expects of ['identical', 'restarted'] as const) {
      assert.match(compareRuns({ quiet, hurt: other, expects }).join('\n'), said)
    }
  })
}

test('reports a missing batch and an extra batch', () => {
  assert.match(compareRuns({ quiet, hurt: { ...quiet, jobs: [] }, expects: 'identical' }).join(), /batch-00 is missing/)
  const more = { ...quiet, jobs: [JOB, { ...JOB, id: 'dapo-1/iterations/0002/batch-00' }] }
  assert.match(compareRuns({ quiet, hurt: more, expects: 'identical' }).join(), /0002\/batch-00 is not in the run/)
})

// Started again ------------------------------------------------------------------------------------------------------

const CANCELLED = { ...EPISODE, ...lost, disposition: 'cancelled', failure: null }
const NEXT: EpisodeDigest = { ...EPISODE, id: 'eval-nightly/0000/task/01', turns: ['null', 'eins'] }
const further = new Map([[NEXT.id, NEXT]])
/** Its only episode was cancelled by the ending and played again under the next index. */
const restarted: RunDigest = {
  ...quiet,
  episodes: [CANCELLED, NEXT],
  ledgers: ['two'],
  fates: new Map([
    [CANCELLED.id, 'excluded'],
    [NEXT.id, 'evaluated'],
  ]),
  evaluations: ['{"passAt1":0}'],
}

function restartFaults(change: Partial<RunDigest>, retrained?: ReadonlyMap<string, JobDigest>): string {
  const changed = { ...restarted, ...change }
  return compareRuns({ quiet, hurt: changed, expects: 'restarted', further, ...(retrained && { retrained }) }).join(
    '\n',
  )
}

test('accepts a restarted run that played a cancelled episode again under the next index', () => {
  assert.equal(restartFaults({}), '')
})

test('reports each other difference between a restarted run and the undisturbed one', () => {
  assert.match(restartFaults({ episodes: [CANCELLED] }), /has 0 valid episodes instead of 1/)
  assert.match(restartFaults({ episodes: [CANCELLED, { ...NEXT, turns: ['null', 'zwei'] }] }), /turn 1 differs/)
  assert.match(restartFaults({ episodes: [CANCELLED, NEXT, { ...NEXT, id: 'eval-nightly/0000/task/02' }] }), /2 valid/)
  assert.match(
    restartFaults({ fates: new Map([[NEXT.id, 'evaluated']]) }),
    /does not name eval-nightly\/0000\/task\/00/,
  )
  const counted = new Map(restarted.fates).set(CANCELLED.id, 'evaluated')
  assert.match(restartFaults({ fates: counted }), /00 \(cancelled\) is evaluated in the ledger/)
  assert.match(restartFaults({ episodes: [EPISODE, NEXT] }), /01 is not in the run without faults/)
  assert.match(restartFaults({ episodes: [{ ...CANCELLED, turns: ['other'] }, NEXT] }), /turn 0 differs/)
})

test('a restarted run with replacements is compared with its own batch, trained once more', () => {
  const again = new Map([[JOB.id, JOB]])
  assert.equal(restartFaults({}, again), '')
  assert.match(restartFaults({ jobs: [{ ...JOB, weights: 'twice' }] }, again), /the weights differ/)
  assert.match(restartFaults({ jobs: [{ ...JOB, steps: null, weights: null }] }), /was never trained on/)
})
