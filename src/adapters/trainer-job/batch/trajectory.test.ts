import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeAction, makeEpisode } from '../../../../test/support/training-records.ts'
import { assembleTrajectory } from './trajectory.ts'

test('a row is prompt, sample, delta, sample, and only sampled ids have loss, including the end-of-turn token', () => {
  const { record, actions } = makeEpisode({ index: 1, turns: 2 })
  const trajectory = assembleTrajectory({ record, actions, trainFormatErrors: true })
  assert.deepEqual([...trajectory.ids], [257, 1, 2, 3, 10, 21, 258, 5, 6, 11, 21, 258])
  assert.deepEqual([...trajectory.lossMask], [0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1])
  assert.deepEqual([...trajectory.logprobs], [0, 0, 0, 0, -0.5, -1.5, -2.5, 0, 0, -0.5, -1.5, -2.5])
  assert.deepEqual([trajectory.sampledTokens, trajectory.maskedTokens, trajectory.lossTokens], [6, 0, 6])
})

test('a sampled id that also occurs in the prompt keeps its loss', () => {
  const { record } = makeEpisode({ turns: 1 })
  const action = makeAction(record, 0, { promptDelta: [258, 258], ids: [258, 258], logprobs: [-1, -1] })
  const { lossMask } = assembleTrajectory({ record, actions: [action], trainFormatErrors: true })
  assert.deepEqual([...lossMask], [0, 0, 1, 1])
})

test('a turn with a format error has no loss in fine-tuning and has loss in reinforcement', () => {
  const { record, actions } = makeEpisode({ turns: 2 })
  const broken = [makeAction(record, 0, { formatError: 'cannot_extract_command', command: null }), ...actions.slice(1)]
  const rft = assembleTrajectory({ record, actions: broken, trainFormatErrors: false })
  assert.deepEqual([...rft.lossMask], [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1])
  assert.deepEqual([rft.sampledTokens, rft.maskedTokens], [6, 3])
  assert.equal(rft.logprobs[4], -0.5)
  const dapo = assembleTrajectory({ record, actions: broken, trainFormatErrors: true })
  assert.equal(dapo.lossTokens, 6)
})

test('a log-probability that is not finite removes its token, which is counted', () => {
  const { record } = makeEpisode({ turns: 1 })
  // JSON has no NaN: the stored record holds null.
  const logprobs = JSON.parse('[-1, null, -9999]') as number[]
  const trajectory = assembleTrajectory({
    record,
    actions: [makeAction(record, 0, { logprobs })],
    trainFormatErrors: true,
  })
  assert.deepEqual(Array.from(trajectory.lossMask).slice(4), [1, 0, 0])
  assert.deepEqual(Array.from(trajectory.logprobs).slice(4), [-1, 0, 0])
  assert.deepEqual([trajectory.droppedNonfinite, trajectory.maskedTokens, trajectory.sampledTokens], [2, 2, 3])
})

test('training leaves out a demonstration shown while sampling and keeps the same samples', () => {
  const { record, actions } = makeEpisode({ turns: 1 })
  const trajectory = assembleTrajectory({ record, actions, trainFormatErrors: false, firstPrompt: [9] })
  assert.deepEqual([...trajectory.ids], [9, 10, 20, 258])
  assert.equal(trajectory.hasOtherPrompt, true)
})

test('refuses records that contradict each other', () => {
  const { record, actions } = makeEpisode({ turns: 2 })
  const cases = [
    actions.slice(1),
    [...actions].reverse(),
    [{ ...actions[0]!, episode: 'another' }, actions[1]!],
    [{ ...actions[0]!, logprobs: [-1] }, actions[1]!],
    [{ ...actions[0]!, promptDelta: [] }, actions[1]!],
  ]
  for (const wrong of cases) {
    assert.throws(() => assembleTrajectory({ record, actions: wrong, trainFormatErrors: true }), {
      code: 'Trainer.BatchRefused',
    })
  }
})
