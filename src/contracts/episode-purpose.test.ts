import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EpisodePurpose } from './episodes.types.ts'
import { evaluationName, evaluationOf, purposeOf, stageOf } from './episode-purpose.ts'

const evaluation = (name: string, iteration: number | null = null, suite: string | null = null): EpisodePurpose => ({
  kind: 'evaluation',
  name,
  iteration,
  suite,
})

/** The text of a purpose is part of stored keys, ids and seeds: a change of it loses every run that exists. */
const STORED: readonly [string, EpisodePurpose][] = [
  ['rft', { kind: 'rft' }],
  ['dapo-1', { kind: 'reinforce', stage: 'dapo-1' }],
  ['eval-base', evaluation('base')],
  ['eval-rft', evaluation('rft')],
  ['eval-dapo-1', evaluation('dapo-1')],
  ['eval-dapo-1-0003', evaluation('dapo-1', 3)],
  ['eval-rl', evaluation('rl')],
  ['eval-rl.rebench_2025_06', evaluation('rl', null, 'rebench_2025_06')],
  ['eval-nightly.may', evaluation('nightly', null, 'may')],
]

test('each purpose is written as the text of earlier versions and read back from it', () => {
  for (const [stage, purpose] of STORED) {
    assert.equal(stageOf(purpose), stage)
    assert.deepEqual(purposeOf(stage), purpose, stage)
  }
})

test('four digits at the end of an evaluation’s name are an iteration, but not at the end of a suite’s name', () => {
  for (const name of ['base', 'dapo-1', 'dapo-1-003', 'dapo0003', 'rl.may-2026']) {
    assert.equal(evaluationOf(name).iteration, null, name)
    assert.equal(evaluationName(evaluationOf(name)), name)
  }
  assert.deepEqual(evaluationOf('dapo-1-0003.may'), { name: 'dapo-1', iteration: 3, suite: 'may' })
})
