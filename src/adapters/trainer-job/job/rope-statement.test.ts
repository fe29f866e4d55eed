import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readPositions, stateRope } from './rope-statement.ts'

const rope = { type: 'yarn', factor: 4, originalMax: 32_768 } as const
/** As Qwen2.5 is published, and as transformers 5 writes it. */
const OLD_FORM = '{"vocab_size": 7, "max_position_embeddings": 32768, "rope_theta": 1000000.0, "rms_norm_eps": 1e-06}'
const NEW_FORM =
  '{"max_position_embeddings": 40960, "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}}'

test('states a rope in both forms that engines read, with the positions that it reaches', () => {
  for (const [config, theta] of [
    [OLD_FORM, 1e6],
    [NEW_FORM, 1e6],
    ['{"max_position_embeddings": 32768}', 10_000],
  ] as const) {
    const stated = JSON.parse(stateRope(config, rope)) as Record<string, unknown>
    const scaling = { rope_type: 'yarn', factor: 4, original_max_position_embeddings: 32_768 }
    assert.deepEqual(stated['rope_scaling'], scaling)
    assert.deepEqual(stated['rope_parameters'], { ...scaling, rope_theta: theta })
    assert.equal(stated['rope_theta'], theta)
    assert.equal(stated['max_position_embeddings'], 131_072)
  }
})

test('keeps the spelling of numbers, because Python distinguishes floats from integers', () => {
  const text = stateRope(OLD_FORM, rope)
  for (const spelled of ['"rms_norm_eps": 1e-06', '"rope_theta": 1000000.0', '"factor": 4.0', '"vocab_size": 7']) {
    assert.ok(text.includes(spelled), spelled)
  }
})

test('returns a config that already states the rope byte for byte, and reads back what it states', () => {
  const stated = stateRope(OLD_FORM, rope)
  assert.equal(stateRope(stated, rope), stated)
  assert.deepEqual(readPositions(stated), { rope, window: 131_072 })
  assert.deepEqual(readPositions(OLD_FORM), { rope: null, window: 32_768 })
  assert.deepEqual(readPositions('{"vocab_size": 7}'), { rope: null, window: null })
})

test('reads YaRN in the old spelling and keeps its further fields', () => {
  const published = `{"max_position_embeddings": 32768, "rope_theta": 5.0,
    "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768, "beta_fast": 16}}`
  assert.deepEqual(readPositions(published).rope, rope)
  const stated = JSON.parse(stateRope(published, rope)) as Record<string, Record<string, unknown>>
  assert.equal(stated['rope_parameters']?.['beta_fast'], 16)
  assert.equal(stated['rope_parameters']?.['rope_theta'], 5)
})

test('refuses a model with another rope, and one with fewer positions than are stretched', () => {
  for (const [scaling, message] of [
    ['{"rope_type": "llama3", "factor": 8.0}', /llama3.*leave out model\.rope/],
    ['{"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 32768}', /yarn × 4 from 32768/],
  ] as const) {
    const config = `{"max_position_embeddings": 32768, "rope_scaling": ${scaling}}`
    assert.throws(() => stateRope(config, rope), { code: 'Config.Invalid', message })
  }
  assert.throws(() => stateRope('{"max_position_embeddings": 2048}', rope), {
    code: 'Config.Invalid',
    message: /at most the model’s own 2048 positions/,
  })
})
