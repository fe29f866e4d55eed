import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FoundRun, RunOutcome } from '../../client/index.ts'
import { describeRun, whereToRead } from './describe-run.ts'

function found(type: string): FoundRun {
  const startedAt = new Date('2026-11-20T12:00:00Z')
  return { workflowId: 'x/r', type, status: 'COMPLETED', startedAt, closedAt: new Date('2026-11-20T12:30:00Z') }
}

function linesAfter(type: string, outcome: RunOutcome<unknown>): string[] {
  const [, ...lines] = describeRun(found(type), { outcome })
    .split('\n')
    .filter((line) => !line.startsWith('UI'))
  return lines
}

const SCORE = { name: 'rl', policy: 'v000002-aaaaaaaa', passAt1: 0.5, sem: 0.125, tasks: 8, attempts: 1 }
const ENDED = 'ended   2026-11-20T12:30:00.000Z'

test('the status of a completed run has its scores and the command that shows the rest', () => {
  const scored = 'score   rl  v000002-aaaaaaaa  pass@1 0.500 ± 0.125 (n = 8, k = 1, SEM over tasks)'
  const next = 'next    longhaul report r shows its figures'
  const trained = { run: 'r', policy: SCORE.policy, stages: [SCORE] }
  assert.deepEqual(linesAfter('trainAgent', { status: 'completed', result: trained }), [ENDED, scored, next])
  const evaluated = { run: 'r', ...SCORE }
  assert.deepEqual(linesAfter('evaluate', { status: 'completed', result: evaluated }), [ENDED, scored, next])
  const graded = { run: 'r', counts: {}, graded: null }
  assert.deepEqual(linesAfter('gradePredictions', { status: 'completed', result: graded }), [ENDED, next])
})

test('the status of a failed run says why', () => {
  const outcome = { status: 'failed', code: 'Config.NotFound', message: 'No policy is promoted' } as const
  assert.deepEqual(linesAfter('evaluate', outcome), [ENDED, 'why     error Config.NotFound: No policy is promoted'])
  assert.deepEqual(linesAfter('evaluate', { status: 'cancelled' }), [ENDED, 'why     the run was cancelled'])
})

test('a gate has no report of scores, so no command is named that would refuse it', () => {
  assert.match(whereToRead('gateSuite', { run: 'r' }), /longhaul tasks gate .*runs\/r\/gates/)
})

test('an ending that cannot be read leaves the status of the server', () => {
  assert.match(describeRun(found('trainAgent'), null), /^x\/r {2}completed, started 2026-11-20T12:00:00.000Z/)
})
