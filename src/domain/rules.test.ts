import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FAILURE_CODES, type FailureCode } from '../contracts/failure-codes.ts'
import type { EpisodeRecord } from '../contracts/episodes.types.ts'
import { exclusionOf, isValidEpisode, ungradedVerdict } from './ledger/episode-fates.ts'
import { answerToFailure } from './failure-answers.ts'
import { selectForRft } from './rewards/group-selection.ts'
import { reselectPool } from './rewards/stage-rules.ts'
import { makeRecord } from '../../test/support/episode-records.ts'

test('only policy endings with a plain verdict are valid, and all others name why they have no reward', () => {
  const cases: [Partial<EpisodeRecord>, string | null][] = [
    [{ disposition: 'submitted', verdict: 'resolved' }, null],
    [{ disposition: 'turn-limit', verdict: 'unresolved' }, null],
    [{ disposition: 'context-limit', verdict: 'unresolved' }, null],
    [{ disposition: 'submitted', verdict: 'could-not-grade' }, 'could-not-grade'],
    [{ disposition: 'infra', verdict: null }, 'infra'],
    [{ disposition: 'infra', verdict: 'resolved' }, 'infra'],
    [{ disposition: 'cancelled', verdict: null }, 'cancelled'],
    [{ disposition: 'stale', verdict: null }, 'stale'],
  ]
  for (const [fields, reason] of cases) {
    const record = makeRecord(fields)
    assert.equal(exclusionOf(record), reason)
    assert.equal(isValidEpisode(record), reason === null)
  }
})

test('unsubmitted work counts as an empty patch, and lost work gets no verdict', () => {
  assert.deepEqual(ungradedVerdict('turn-limit'), { verdict: 'unresolved', reason: 'not-submitted' })
  assert.deepEqual(ungradedVerdict('infra'), { verdict: null, reason: null })
  assert.deepEqual(ungradedVerdict('cancelled'), { verdict: null, reason: null })
})

test('every failure code has one answer, and only the policy’s own failures end an episode with a reward', () => {
  assert.deepEqual(answerToFailure('Model.ContextOverflow'), { kind: 'end', disposition: 'context-limit' })
  assert.deepEqual(answerToFailure('Sandbox.Lost'), { kind: 're-place' })
  assert.deepEqual(answerToFailure('Sandbox.OutOfDisk'), { kind: 're-place' })
  assert.deepEqual(answerToFailure('Artifact.OutOfDisk'), { kind: 'retry' })
  assert.deepEqual(answerToFailure('Model.RateLimited'), { kind: 'retry' })
  assert.deepEqual(answerToFailure('Model.NoTokenIds'), { kind: 'fail-run' })
  for (const code of Object.keys(FAILURE_CODES) as FailureCode[]) {
    const answer = answerToFailure(code)
    if (FAILURE_CODES[code].countsAs === 'infra' && answer.kind === 'end')
      assert.equal(answer.disposition, 'infra', code)
  }
})

test('rejection fine-tuning keeps every success, or the first ones above a limit', () => {
  const episodes = [
    makeRecord({ taskId: 'b', index: 1, verdict: 'resolved' }),
    makeRecord({ taskId: 'a', index: 2, verdict: 'resolved' }),
    makeRecord({ taskId: 'a', index: 0, verdict: 'resolved' }),
    makeRecord({ taskId: 'a', index: 1, verdict: 'unresolved' }),
  ].filter(isValidEpisode)
  const all = selectForRft({ episodes, maxPerTask: null, unaudited: 'allow' })
  assert.deepEqual(
    all.filter((one) => one.kind === 'kept').map((one) => one.episode.slice(-4)),
    ['a/00', 'a/02', 'b/01'],
  )
  const one = selectForRft({ episodes, maxPerTask: 1, unaudited: 'allow' })
  assert.deepEqual(
    one.map((entry) => (entry.kind === 'kept' ? 'kept' : entry.reason)),
    ['kept', 'unresolved', 'over-task-limit', 'kept'],
  )
})

test('a success that looks like a hack never fine-tunes and does not use up the limit of its task', () => {
  const episodes = [
    makeRecord({ taskId: 'a', index: 0, verdict: 'resolved', suspectedHack: true, signs: ['conftest'] }),
    makeRecord({ taskId: 'a', index: 1, verdict: 'resolved' }),
    makeRecord({ taskId: 'b', index: 0, verdict: 'unresolved', suspectedHack: true, signs: ['conftest'] }),
  ].filter(isValidEpisode)
  for (const maxPerTask of [null, 1]) {
    assert.deepEqual(
      selectForRft({ episodes, maxPerTask, unaudited: 'allow' }).map((one) => [
        one.episode,
        one.kind === 'kept' ? 'kept' : one.reason,
      ]),
      [
        [episodes[0]?.episode, 'suspected-hack'],
        [episodes[1]?.episode, 'kept'],
        [episodes[2]?.episode, 'unresolved'],
      ],
    )
  }
})

test('a later stage drops tasks solved in two thirds of attempts or never, compared as integers', () => {
  const records = [
    { taskId: 'two-of-three', resolved: 2, attempts: 3 },
    { taskId: 'nineteen-of-thirty', resolved: 19, attempts: 30 },
    { taskId: 'never', resolved: 0, attempts: 10 },
  ]
  const pool = ['two-of-three', 'nineteen-of-thirty', 'never', 'unseen']
  const rule = { dropSuccessAtLeast: 0.6667, dropNeverSolved: true, unseen: 'keep' as const }
  assert.deepEqual(reselectPool({ pool, records, rule }), {
    kept: ['nineteen-of-thirty', 'unseen'],
    dropped: [
      { taskId: 'two-of-three', reason: 'solved-often' },
      { taskId: 'never', reason: 'never-solved' },
    ],
  })
  assert.deepEqual(reselectPool({ pool: ['unseen'], records, rule: { ...rule, unseen: 'drop' } }).kept, [])
})

test('submitted work that reached no grader gets no verdict', () => {
  assert.deepEqual(ungradedVerdict('submitted'), { verdict: 'could-not-grade', reason: 'not-graded' })
  assert.deepEqual(ungradedVerdict('agent-gave-up'), { verdict: 'unresolved', reason: 'sandbox-ended' })
})

test('unknown endings are refused', () => {
  assert.throws(() => isValidEpisode(makeRecord({ disposition: 'vanished' as EpisodeRecord['disposition'] })))
})

test('a permanent infrastructure failure asks for another sandbox or ends the episode', () => {
  const lost = (Object.keys(FAILURE_CODES) as FailureCode[]).filter((code) => {
    const { retryable, countsAs } = FAILURE_CODES[code]
    return !retryable && countsAs === 'infra'
  })
  const ended = lost.filter((code) => answerToFailure(code).kind !== 're-place')
  assert.ok(ended.length > 0 && ended.length < lost.length)
  for (const code of ended) assert.deepEqual(answerToFailure(code), { kind: 'end', disposition: 'infra' }, code)
})

test('a suspected hack never trains regardless of the tests', () => {
  const episodes = [
    makeRecord({ index: 0, verdict: 'resolved', suspectedHack: true, signs: ['conftest'] }),
    makeRecord({ index: 1, verdict: 'resolved' }),
    makeRecord({ index: 2, verdict: 'unresolved', suspectedHack: true, signs: ['conftest'] }),
  ].filter(isValidEpisode)
  // It takes none of the task's places either.
  assert.deepEqual(selectForRft({ episodes, maxPerTask: 1, unaudited: 'allow' }), [
    { kind: 'dropped', episode: episodes[0]?.episode, reason: 'suspected-hack' },
    { kind: 'kept', episode: episodes[1]?.episode },
    { kind: 'dropped', episode: episodes[2]?.episode, reason: 'unresolved' },
  ])
})

test('a success over the limit of its task has that reason', () => {
  const episodes = [0, 1].map((index) => makeRecord({ index, verdict: 'resolved' })).filter(isValidEpisode)
  assert.deepEqual(selectForRft({ episodes, maxPerTask: 1, unaudited: 'allow' })[1], {
    kind: 'dropped',
    episode: episodes[1]?.episode,
    reason: 'over-task-limit',
  })
})

test('a share without a small fraction is compared as a decimal', () => {
  const rule = { dropSuccessAtLeast: 0.613, dropNeverSolved: true, unseen: 'drop' as const }
  const records = [
    { taskId: 'above', resolved: 62, attempts: 100 },
    { taskId: 'below', resolved: 61, attempts: 100 },
    { taskId: 'empty', resolved: 0, attempts: 0 },
  ]
  assert.deepEqual(reselectPool({ pool: ['above', 'below', 'empty'], records, rule }), {
    kept: ['below'],
    dropped: [
      { taskId: 'above', reason: 'solved-often' },
      { taskId: 'empty', reason: 'unseen' },
    ],
  })
})

test('the largest denominator of a share is 20', () => {
  const rule = { dropSuccessAtLeast: 0.95, dropNeverSolved: true, unseen: 'keep' as const }
  const records = [{ taskId: 'nineteen-of-twenty', resolved: 19, attempts: 20 }]
  assert.equal(reselectPool({ pool: ['nineteen-of-twenty'], records, rule }).kept.length, 0)
})

test('an unconfirmed success never fine-tunes, says why and does not use up the limit of its task', () => {
  const audit = (outcome: 'agrees' | 'void' | 'unsupported') => ({ audit: { outcome, reasons: [], detail: null } })
  const episodes = [
    makeRecord({ index: 0, verdict: 'resolved', ...audit('void') }),
    makeRecord({ index: 1, verdict: 'resolved', ...audit('unsupported') }),
    makeRecord({ index: 2, verdict: 'resolved' }),
    makeRecord({ index: 3, verdict: 'unresolved', ...audit('void') }),
    makeRecord({ index: 4, verdict: 'resolved', ...audit('agrees') }),
  ].filter(isValidEpisode)
  const told = (unaudited: 'refuse' | 'allow') =>
    selectForRft({ episodes, maxPerTask: 1, unaudited }).map((one) => (one.kind === 'kept' ? 'kept' : one.reason))
  assert.deepEqual(told('refuse'), ['audit-void', 'unaudited', 'unaudited', 'unresolved', 'kept'])
  assert.deepEqual(told('allow'), ['audit-void', 'kept', 'over-task-limit', 'unresolved', 'over-task-limit'])
})
