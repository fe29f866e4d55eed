/** Chaos is only worth what its comparison would notice: each fault is made here once. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compareRuns } from './compare-runs.ts'
import type { EpisodeDigest, RunDigest } from './run-digest.ts'

const EPISODE: EpisodeDigest = {
  id: 'eval-nightly/0000/task/00',
  disposition: 'submitted',
  failure: null,
  turns: ['zero', 'one', 'two'],
  verdict: '{"kind":"resolved"}',
  patch: 'a',
  result: '{"verdict":"resolved","turns":3}',
}

const quiet: RunDigest = { episodes: [EPISODE], ledgers: ['evaluated'] }

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

test('the records are the same: nothing to say', () => {
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
  test(`${what}: found where the records must be identical`, () => {
    assert.match(compareRuns({ quiet, hurt: hurt(change), expects: 'identical' }).join('\n'), said)
  })
}

test('an episode is missing, another is there that nobody lost one for, the ledger differs: each is found', () => {
  assert.match(compareRuns({ quiet, hurt: { ...quiet, episodes: [] }, expects: 'identical' }).join(), /is missing/)
  const extra = { ...EPISODE, id: 'eval-nightly/0000/task/01' }
  assert.match(compareRuns({ quiet, hurt: hurt({}, extra), expects: 'replaced' }).join(), /not in the run/)
  assert.match(
    compareRuns({ quiet, hurt: { ...quiet, ledgers: [] }, expects: 'identical' }).join(),
    /the ledger differs/,
  )
})

test('an episode may be lost: it and its replacement are allowed, a verdict for it is not, and neither are other turns', () => {
  const replacement = { ...EPISODE, id: 'eval-nightly/0000/task/01' }
  assert.deepEqual(compareRuns({ quiet, hurt: hurt(lost, replacement), expects: 'replaced' }), [])
  const rewarded = hurt({ ...lost, result: '{"verdict":"unresolved"}' }, replacement)
  assert.match(compareRuns({ quiet, hurt: rewarded, expects: 'replaced' }).join(), /infra and has a verdict/)
  const other = hurt({ ...lost, turns: ['other'] }, replacement)
  assert.match(compareRuns({ quiet, hurt: other, expects: 'replaced' }).join(), /turn 0 differs/)
})

test('a cancelled run: what was committed is the beginning, episodes that never began may be missing', () => {
  const cancelled = { ...lost, disposition: 'cancelled', failure: null }
  assert.deepEqual(compareRuns({ quiet, hurt: hurt(cancelled), expects: 'cancelled' }), [])
  assert.deepEqual(compareRuns({ quiet, hurt: { episodes: [], ledgers: [] }, expects: 'cancelled' }), [])
  const finished = hurt({ patch: 'b' })
  assert.match(compareRuns({ quiet, hurt: finished, expects: 'cancelled' }).join(), /the patch differs/)
})
