import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { HistoryPage, TimelineBar } from '../pages.types.ts'
import { joinHistory } from './timeline.ts'

type Execution = HistoryPage['executions'][number]
type Activity = Execution['activities'][number]

function activity(fields: Partial<Activity>): Activity {
  return {
    activity: 'advanceEpisode',
    queue: 'sandbox.h.b',
    summary: '',
    scheduledMs: 1_000,
    startedMs: 1_100,
    closedMs: 2_000,
    worker: '1@h',
    attempt: 1,
    state: 'completed',
    failure: null,
    ...fields,
  }
}

function join(activities: Activity[], { bars = [], ...more }: { bars?: TimelineBar[] } & Partial<Execution> = {}) {
  const execution: Execution = {
    workflowId: 'w',
    runId: 'r',
    status: 'COMPLETED',
    startedMs: 0,
    closedMs: 9_000,
    activities,
    marks: [],
    events: 30,
    eventsRead: 30,
    ...more,
  }
  const timeline = { bars, fromMs: bars.length === 0 ? null : 500 }
  return joinHistory({ history: { executions: [execution], atMs: 10_000 }, timeline })
}

const spans = ({ bars }: ReturnType<typeof joinHistory>) => bars.map(({ what, fromMs, toMs }) => [what, fromMs, toMs])

test('an activity of one attempt has its queue time and then its work', () => {
  const joined = join([activity({ activity: 'openSandbox' })])
  assert.deepEqual(spans(joined), [
    ['queue', 1_000, 1_100],
    ['placing', 1_100, 2_000],
  ])
  assert.deepEqual([joined.rows[0]?.queuedMs, joined.rows[0]?.ranMs, joined.rows[0]?.isFault], [100, 900, false])
})

test('the first two of three attempts are one span of retries, without an invented queue time', () => {
  const failure = { code: 'Sandbox.EngineUnavailable', message: 'silent' }
  const joined = join([activity({ attempt: 3, startedMs: 1_700, failure })])
  assert.deepEqual(spans(joined), [
    ['retries', 1_000, 1_700],
    ['playing', 1_700, 2_000],
  ])
  const [row] = joined.rows
  assert.deepEqual([row?.queuedMs, row?.ranMs, row?.isFault], [null, 300, true])
  assert.equal(row?.note, 'attempt before: Sandbox.EngineUnavailable: silent · on 1@h')
})

test('an open activity lasts until now, and one that never started has only queue time', () => {
  assert.deepEqual(spans(join([activity({ state: 'started', closedMs: null })])).at(-1), ['playing', 1_100, 10_000])
  const queued = activity({ state: 'queued', startedMs: null, closedMs: null, attempt: 1, worker: null })
  const joined = join([queued])
  assert.deepEqual(spans(joined), [['queue', 1_000, 10_000]])
  assert.deepEqual([joined.rows[0]?.queuedMs, joined.rows[0]?.ranMs], [null, null])
  const expired = activity({ state: 'timed-out', startedMs: null, closedMs: 3_000, attempt: 0, worker: null })
  assert.deepEqual(spans(join([expired])), [['queue', 1_000, 3_000]])
})

/** The timeline's zero is 500: a turn from 1,200 to 1,500 and one from `from` on. */
function turns(from: number): TimelineBar[] {
  const bar = { turn: 0, note: '' }
  return [
    { ...bar, what: 'sampling', fromMs: 700, toMs: 900 },
    { ...bar, what: 'execution', fromMs: 900, toMs: 1_000 },
    { ...bar, what: 'sampling', fromMs: from - 500, toMs: from - 400 },
  ]
}

test('the first step in a second sandbox continues with replays until its first new sample', () => {
  const open = (at: number) => activity({ activity: 'openSandbox', scheduledMs: at, startedMs: at, closedMs: at + 50 })
  const steps = [
    open(1_000),
    activity({ scheduledMs: 1_100, startedMs: 1_150, closedMs: 1_600, state: 'timed-out' }),
    open(3_000),
    activity({ scheduledMs: 3_100, startedMs: 3_200, closedMs: 5_000 }),
  ]
  const resumed = (bars: TimelineBar[]) => join(steps, { bars }).bars.filter(({ what }) => what === 'resuming')
  assert.deepEqual(
    resumed(turns(4_000)).map(({ fromMs, toMs }) => [fromMs, toMs]),
    [[3_200, 4_000]],
  )
  // No new sample in that step: the records do not say when the replay ended.
  assert.deepEqual(resumed(turns(6_000)), [])
  // No records at all.
  assert.deepEqual(resumed([]), [])
})

test('a second attempt starts with resuming, and a following step in the same sandbox does not', () => {
  const again = join([activity({ attempt: 2, scheduledMs: 2_000, startedMs: 3_000, closedMs: 5_000 })], {
    bars: turns(3_300),
  })
  assert.deepEqual(
    again.bars.filter(({ what }) => what === 'resuming').map(({ fromMs, toMs }) => [fromMs, toMs]),
    [[3_000, 3_300]],
  )
  const next = join([activity({ scheduledMs: 2_000, startedMs: 3_000, closedMs: 5_000 })], { bars: turns(3_300) })
  assert.deepEqual(
    next.bars.filter(({ what }) => what === 'resuming'),
    [],
  )
})

test('workflow events appear among the activities, and unread events are counted', () => {
  const joined = join([activity({ scheduledMs: 3_000, startedMs: 3_000, closedMs: 3_500 })], {
    marks: [{ what: 'workflow-task-failed', atMs: 2_000, note: 'TMPRL1100' }],
    events: 70,
  })
  assert.deepEqual(
    joined.rows.map(({ activity, isFault }) => [activity, isFault]),
    [
      ['workflow task failed', true],
      ['advanceEpisode', false],
    ],
  )
  assert.equal(joined.unread, 40)
})
