import assert from 'node:assert/strict'
import { test } from 'node:test'
import { codeOf } from '../../../../test/integration/sandbox-fixture.ts'
import type { GradingAnswer } from './grade-output.ts'
import { toResult } from './grade-patch.ts'

const machine = { engine: '1', cgroupVersion: 2, cpuset: '0', memoryMiB: 64, startedAtMs: 0, endedAtMs: 1 } as const
const NOTHING = Buffer.alloc(0)

/** An answer that came 5 s after the container was started. */
function answered(words: string[], changes: Partial<GradingAnswer> = {}) {
  const answer = { words, log: Buffer.from('log'), errors: NOTHING, atMs: 6_000, ...changes }
  return toResult(answer, { startMs: 1_000, timeoutMs: 5_000, imageDigest: 'sha256:0', machine })
}

test('an answer has the time measured on this host', () => {
  const { wallMs, peakMemoryBytes } = answered(['ran', '1', '4096'])
  assert.deepEqual([wallMs, peakMemoryBytes], [5_000, 4_096])
})

const LIES = ['-1', 'NaN', '1e18', `1${'0'.repeat(18)}`, 'Infinity', '0x10', '256', '']

for (const lie of LIES) {
  test(`an exit code of ${JSON.stringify(lie)} is refused, and such a memory figure is dropped`, () => {
    assert.throws(
      () => answered(['ran', lie]),
      (error) => codeOf(error) === 'Grading.Ended',
    )
    // A small number may be true.
    if (lie !== '256') assert.equal(answered(['ran', '0', lie]).peakMemoryBytes, undefined)
  })
}

test('a container that reports a timeout too early has ended its own grading', () => {
  assert.equal(answered(['timed-out', '137']).kind, 'timed-out')
  assert.throws(
    () => answered(['timed-out', '137'], { atMs: 5_900 }),
    (error) => codeOf(error) === 'Grading.Ended',
  )
})
