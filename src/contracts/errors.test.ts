import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LonghaulError } from './errors.ts'

test('an error that quotes half of a character, or a text of megabytes, holds whole characters and a bounded text', () => {
  const { message, details } = new LonghaulError({
    code: 'Model.BadResponse',
    message: `Expected a reply: ${'😀'.repeat(4).slice(0, 7)}`,
    details: { finish: 'x'.repeat(5_000_000), model: '\udc00', status: 200, policy: null },
  })
  assert.ok(message.isWellFormed())
  assert.ok(message.startsWith('Expected a reply: 😀😀😀\ufffd [finish=xxx'), message.slice(0, 80))
  assert.ok(message.length < 3_000, String(message.length))
  assert.deepEqual(
    [String(details['finish']).length, details['model'], details['status'], details['policy']],
    [2_000, '\ufffd', 200, null],
  )
})
