import assert from 'node:assert/strict'
import { test } from 'node:test'
import { codeOf } from '../../../../test/integration/sandbox-fixture.ts'
import { readAuditScript } from './audit/audit-script.ts'
import { MAX_INLINE_BYTES } from './grade-input.ts'
import type { GradingAnswer } from './grade-output.ts'
import { packed, toResult } from './grade-patch.ts'

const machine = { engine: '1', cgroupVersion: 2, cpuset: '0', memoryMiB: 64, startedAtMs: 0, endedAtMs: 1 } as const
const NOTHING = Buffer.alloc(0)

/** An answer that came 5 s after the container was started, its audit after 2 s. */
function answered(words: string[], changes: Partial<GradingAnswer> = {}) {
  const audit = { words: ['tested'], patch: NOTHING, result: NOTHING, errors: NOTHING, atMs: 3_000 }
  const answer = { words, log: Buffer.from('log'), errors: NOTHING, audit, atMs: 6_000, ...changes }
  return toResult(answer, { startMs: 1_000, timeoutMs: 5_000, imageDigest: 'sha256:0', machine })
}

test('an answer: its times are between what arrived here, with an audit and without', () => {
  const { wallMs, audit, peakMemoryBytes } = answered(['ran', '1', '4096'])
  assert.deepEqual([wallMs, audit?.wallMs, peakMemoryBytes], [3_000, 2_000, 4_096])
  assert.equal(answered(['ran', '0'], { audit: null }).wallMs, 5_000)
})

const LIES = ['-1', 'NaN', '1e18', `1${'0'.repeat(18)}`, 'Infinity', '0x10', '256', '']

for (const lie of LIES) {
  test(`an exit code of ${JSON.stringify(lie)}, and memory of that: no result of ours, and no memory`, () => {
    assert.throws(
      () => answered(['ran', lie]),
      (error) => codeOf(error) === 'Grading.Ended',
    )
    // A small number may be true.
    if (lie !== '256') assert.equal(answered(['ran', '0', lie]).peakMemoryBytes, undefined)
  })
}

test('tests that are said to be over a limit that has not passed: the container has ended its own grading', () => {
  assert.equal(answered(['timed-out', '137']).kind, 'timed-out')
  assert.throws(
    () => answered(['timed-out', '137'], { atMs: 5_900 }),
    (error) => codeOf(error) === 'Grading.Ended',
  )
})

test('an audit says its kind and nothing else', () => {
  const audit = { words: ['tested', '1e18'], patch: NOTHING, result: NOTHING, errors: NOTHING, atMs: 3_000 }
  assert.throws(
    () => answered(['ran', '0'], { audit }),
    (error) => codeOf(error) === 'Grading.Failed',
  )
})

test('the audit fits into what the shell writes by itself: an upload would cost each grading more than its canaries', async () => {
  assert.ok(packed(await readAuditScript()).length <= MAX_INLINE_BYTES)
})
