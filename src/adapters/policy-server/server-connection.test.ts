import assert from 'node:assert/strict'
import { test } from 'node:test'
import { delayBefore, parseRetryAfter } from './server-connection.ts'

const NOW = Date.parse('2026-11-20T12:00:00Z')

test('reads Retry-After as seconds or a date, and ignores nonsense and the past', () => {
  assert.equal(parseRetryAfter('2', NOW), 2000)
  assert.equal(parseRetryAfter('0.5', NOW), 500)
  assert.equal(parseRetryAfter('Fri, 20 Nov 2026 12:00:03 GMT', NOW), 3000)
  for (const header of [null, '', '  ', 'soon', '-1', 'Fri, 20 Nov 2026 11:59:00 GMT']) {
    assert.equal(parseRetryAfter(header, NOW), null, String(header))
  }
})

test('delays double up to a maximum, with jitter above one half', () => {
  const least = [2, 3, 4, 20].map((tries) => delayBefore(tries, null, () => 0))
  assert.deepEqual(least, [125, 250, 500, 5000])
  assert.equal(
    delayBefore(2, null, () => 1),
    250,
  )
})

test('a requested time is kept as the earliest retry, and bounded', () => {
  assert.equal(
    delayBefore(2, 3000, () => 0),
    3000,
  )
  assert.equal(
    delayBefore(2, 3_600_000, () => 0),
    60_000,
  )
})
