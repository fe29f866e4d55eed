import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FoundRun, ListedRun, RunOutcome } from '../../client/index.ts'
import { describeRun, describeRuns, whereToRead } from './describe-run.ts'

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

test('a score of one task has no error bar: ± 0.000 would be a wrong one', () => {
  const audited = { passAt1: 0, sem: 0 }
  const one = { ...SCORE, passAt1: 1, sem: 0, tasks: 1, audited }
  const [, score] = linesAfter('evaluate', { status: 'completed', result: { run: 'r', ...one } })
  const none = '(one task: no SEM)'
  assert.equal(
    score,
    `score   rl  ${SCORE.policy}  pass@1 1.000 ${none}, audited 0.000 ${none} (n = 1, k = 1, SEM over tasks)`,
  )
  const line = describeRuns([listed({ score: { name: 'rl', passAt1: 1, sem: 0, tasks: 1 } })], null)
  assert.match(line, /1\.000 \(one task: no SEM\) rl/)
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

function listed(change: Partial<ListedRun> = {}): ListedRun {
  return {
    run: 'demo-2026-11-20-a',
    kind: 'train',
    workflowId: 'train/demo-2026-11-20-a',
    executionId: 'x',
    type: 'trainAgent',
    status: 'COMPLETED',
    startedAt: new Date('2026-11-20T12:00:00Z'),
    closedAt: new Date('2026-11-20T12:30:00Z'),
    score: { name: 'rl', passAt1: 0.7031, sem: 0.0412, tasks: 128 },
    attributes: { Stage: 'eval-rl' },
    ...change,
  }
}

const LISTED = [
  listed(),
  listed({ run: 'night-ä', kind: 'eval', workflowId: 'eval/night-ä', status: 'RUNNING', closedAt: null, score: null }),
  listed({ closedAt: new Date('2026-11-21T01:30:00Z'), status: 'TIMED_OUT', score: null, attributes: {} }),
]

test('the list of runs has kind, state, dates and the score with its error bar', () => {
  assert.deepEqual(describeRuns(LISTED, null).split('\n'), [
    'run                kind   state      started (UTC)     ended        pass@1 ± SEM      stage',
    'demo-2026-11-20-a  train  completed  2026-11-20 12:00  12:30        0.703 ± 0.041 rl  eval-rl',
    'night-ä            eval   running    2026-11-20 12:00  –            –                 eval-rl',
    'demo-2026-11-20-a  train  timed-out  2026-11-20 12:00  11-21 01:30  –                 –',
  ])
})

test('the list of runs fits the terminal, and keeps names whole', () => {
  for (let columns = 17; columns < 110; columns++) {
    const lines = describeRuns(LISTED, columns).split('\n')
    assert.ok(
      lines.every((line) => line.length <= columns),
      `${columns} columns: ${lines.join('\n')}`,
    )
    assert.ok(lines[1]?.startsWith('demo-2026-11-20-a'))
  }
  assert.match(describeRuns(LISTED, 80), /^run +kind +state +started \(UTC\) +pass@1 ± SEM$/m)
  assert.match(describeRuns(LISTED, 5), /^demo-2026-11-20-a$/m)
})

test('the list of runs names the workflow where a run was started under another id', () => {
  assert.match(describeRuns([listed({ workflowId: 'c0ffee' })], null), /workflow\n.* c0ffee$/)
})
