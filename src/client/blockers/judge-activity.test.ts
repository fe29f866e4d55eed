import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ActivityHeartbeat, ActivityWait } from '../../contracts/waits.types.ts'
import { adviceFor } from './blocker.ts'
import { type Finding, judgeActivity, judgeSilence, judgeWorkflowTask, type QueueState } from './judge-activity.ts'
import type { PendingActivity } from './pending-activities.ts'

const NOW = Date.parse('2026-11-21T12:00:00Z')
const clock = { nowMs: NOW, longerThanMs: 30_000 }
const before = (seconds: number): number => NOW - seconds * 1000
const SERVER = { kind: 'policy-server', name: 'http://10.0.0.7:8000' } as const

/** An activity that runs well: it was begun a minute ago and beat a second ago. */
function activity(changes: Partial<PendingActivity> = {}): PendingActivity {
  return {
    workflowId: 'train/demo-a/dapo-1/0003/task/x/ep/07',
    activityId: '4',
    activity: 'advanceEpisode',
    pausedMs: null,
    state: 'started',
    attempt: 1,
    scheduledMs: before(60),
    startedMs: before(60),
    lastHeartbeatMs: before(1),
    lastEndMs: null,
    nextAttemptMs: null,
    heartbeatTimeoutMs: 20_000,
    queue: 'sandbox.host-1.abc',
    worker: '12@host-1',
    heartbeat: beat({}),
    lastFailure: null,
    ...changes,
  }
}

function beat(wait: Partial<ActivityWait> | null, failing: ActivityHeartbeat['failing'] = null): ActivityHeartbeat {
  const usual = { doing: 'sampling', on: SERVER, sinceMs: before(2), expectedUntilMs: null, trouble: null }
  return { facts: null, failing, wait: wait === null ? null : { ...usual, ...wait } }
}

function judge(changes: Partial<PendingActivity>, queue: Partial<QueueState> | null = null): Finding | null {
  const state = queue === null ? null : { lastPollMs: null, lastWorker: null, isBusy: false, ...queue }
  return judgeActivity(activity(changes), state, clock)
}

test('reports nothing for a wait of two seconds', () => {
  assert.equal(judge({}), null)
})

test('an attempt that is put off for longer than any workflow asks is a wait for the operator who did it', () => {
  const options = (seconds: number) =>
    judge({
      state: 'backing-off',
      lastEndMs: before(40),
      nextAttemptMs: before(-seconds),
      lastHeartbeatMs: before(40),
    })
  assert.deepEqual([options(60)?.on.kind, options(864_000)?.on.kind], ['worker', 'person'])
  assert.match(options(864_000)?.toDo ?? '', /^temporal activity update-options .* --retry-initial-interval 1s/)
})

test('a worker is silent, and an operator has lengthened or removed the heartbeat timeout: it is named, with the way back', () => {
  for (const heartbeatTimeoutMs of [null, 21_600_000]) {
    const silent = judge({ heartbeatTimeoutMs, lastHeartbeatMs: before(40) })
    assert.match(silent?.error?.message ?? '', /has sent no heartbeat since/)
    assert.match(silent?.toDo ?? '', /^temporal activity update-options .* --heartbeat-timeout 30s$/)
    assert.equal(judge({ heartbeatTimeoutMs, lastHeartbeatMs: before(5) }), null)
  }
})

test('a wait for a server beyond the reporting delay is a blocker since it began', () => {
  const finding = judge({ heartbeat: beat({ sinceMs: before(45) }) })
  assert.deepEqual(
    [finding?.on, finding?.doing, finding?.sinceMs, finding?.isBlocker],
    [SERVER, 'sampling', before(45), true],
  )
})

test('tests are a wait within their own deadline and a blocker past it', () => {
  const tests = (untilS: number) =>
    judge({ heartbeat: beat({ doing: 'running the tests', sinceMs: before(300), expectedUntilMs: before(untilS) }) })
  assert.equal(tests(-60)?.isBlocker, false)
  assert.equal(tests(60)?.isBlocker, true)
})

test('an engine that is silent for 40 s during a command is a blocker with its code', () => {
  const trouble = { code: 'Sandbox.EngineUnavailable', message: 'silent', sinceMs: before(40), tries: 1 } as const
  const finding = judge({ heartbeat: beat({ sinceMs: before(50), expectedUntilMs: before(-60), trouble }) })
  assert.deepEqual(
    [finding?.isBlocker, finding?.sinceMs, finding?.error],
    [true, before(40), { code: 'Sandbox.EngineUnavailable', message: 'silent' }],
  )
})

test('names a worker whose heartbeat is missing for nine tenths of its timeout, also where a step has a long one', () => {
  for (const [timeoutS, quietS, silentS] of [
    [20, 17, 31],
    [60, 50, 55],
    [120, 100, 110],
  ] as const) {
    const after = (seconds: number) =>
      judge({ startedMs: before(300), lastHeartbeatMs: before(seconds), heartbeatTimeoutMs: timeoutS * 1_000 })
    assert.equal(after(quietS), null, `${timeoutS} s`)
    const finding = after(silentS)
    assert.equal(finding?.on.kind, 'worker')
    const since = new Date(before(silentS)).toISOString()
    assert.match(finding?.error?.message ?? '', new RegExp(`12@host-1 has sent no heartbeat since ${since}`))
    assert.equal(finding?.toDo, undefined, 'nothing was lengthened by a person')
  }
  const graded = judge({ activity: 'gradeSubmission', heartbeatTimeoutMs: 60_000, lastHeartbeatMs: before(40) })
  assert.match(graded?.toDo ?? '', /--heartbeat-timeout 30s$/)
})

test('names a queue without a poller, with its last worker', () => {
  const queued = { state: 'queued', startedMs: null, lastHeartbeatMs: null, heartbeat: null, worker: null } as const
  const unserved = judge(queued, {})
  assert.deepEqual([unserved?.on, unserved?.isBlocker], [{ kind: 'worker', name: 'sandbox.host-1.abc' }, true])
  assert.equal(unserved?.error?.message, 'no worker polls queue sandbox.host-1.abc')
  const gone = judge(queued, { lastPollMs: before(90), lastWorker: '12@host-1' })
  assert.match(gone?.error?.message ?? '', /since 2026-11-21T11:58:30.*12@host-1/)
})

test('a queue with polling or busy workers is a wait and no blocker', () => {
  const queued = { state: 'queued', startedMs: null, lastHeartbeatMs: null, heartbeat: null } as const
  assert.equal(judge(queued, { lastPollMs: before(3) })?.isBlocker, false)
  assert.equal(judge(queued, { lastPollMs: before(300), isBusy: true })?.isBlocker, false)
})

test('the wait for a dead host’s queue counts from its last heartbeat', () => {
  const retried = { state: 'queued', attempt: 2, scheduledMs: before(5), lastHeartbeatMs: before(40) } as const
  assert.equal(judge(retried, { lastPollMs: before(41) })?.sinceMs, before(40))
})

test('equal failures are a blocker since the first, with the last error and what it was waiting for', () => {
  const failing = {
    code: 'Model.Busy',
    message: 'held by b',
    sinceMs: before(90),
    tries: 3,
    on: SERVER,
    doing: 'loading v1',
  } as const
  const lastFailure = { code: 'Model.Busy', message: 'held by b' }
  const finding = judge({ state: 'backing-off', attempt: 4, heartbeat: beat(null, failing), lastFailure })
  assert.deepEqual(
    [finding?.on, finding?.doing, finding?.sinceMs, finding?.error, finding?.attempt],
    [SERVER, 'loading v1', before(90), lastFailure, 4],
  )
})

test('an attempt that runs beyond the reporting delay without a wait is over its earlier failures', () => {
  const failing = {
    code: 'Model.Busy',
    message: 'm',
    sinceMs: before(90),
    tries: 3,
    on: SERVER,
    doing: 'loading',
  } as const
  const lastFailure = { code: 'Model.Busy', message: 'm' }
  assert.notEqual(judge({ attempt: 4, startedMs: before(5), heartbeat: beat({}, failing), lastFailure }), null)
  assert.equal(judge({ attempt: 4, startedMs: before(45), heartbeat: beat({}, failing), lastFailure }), null)
})

test('long work without a wait is no blocker', () => {
  assert.equal(judge({ heartbeat: beat(null), startedMs: before(120) })?.isBlocker, false)
})

test('an activity that an operator paused in Temporal waits for a person', () => {
  assert.deepEqual(judge({ state: 'paused' })?.on.kind, 'person')
})

test('an untaken workflow task means no control worker, and one taken repeatedly means broken code', () => {
  const task = { workflowId: 'train/demo-a', queue: 'control', sinceMs: before(60), attempt: 1 }
  const untaken = judgeWorkflowTask(task, { lastPollMs: null, lastWorker: null, isBusy: false }, clock)
  assert.deepEqual(untaken?.on, { kind: 'worker', name: 'control' })
  const broken = judgeWorkflowTask(
    { ...task, attempt: 9 },
    { lastPollMs: before(1), lastWorker: 'w', isBusy: false },
    clock,
  )
  assert.deepEqual([broken?.on.kind, broken?.isBlocker], ['workflow', true])
  assert.match(broken?.error?.message ?? '', /tried 9 times/)
})

/** The server tries such a task again every ten seconds at first, and each try begins its time anew. */
test('a workflow task that a worker fails is a blocker since its first failure, with the reason', () => {
  const task = { workflowId: 'train/demo-a', queue: 'control', sinceMs: before(5), attempt: 4 }
  const queue = { lastPollMs: before(12), lastWorker: 'w', isBusy: false }
  const failure = { sinceMs: before(60), message: 'LONGHAUL_CODEC_KEYS is not set' }
  const found = judgeWorkflowTask({ ...task, failure }, queue, clock)
  assert.deepEqual([found?.on.kind, found?.sinceMs, found?.isBlocker], ['workflow', before(60), true])
  assert.match(found?.error?.message ?? '', /tried 4 times: LONGHAUL_CODEC_KEYS is not set/)
  assert.equal(judgeWorkflowTask({ ...task, failure: { ...failure, sinceMs: before(20) } }, queue, clock), null)
})

test('a silent run means that no control worker polls, or that a polling one is slow', () => {
  const polled = (seconds: number) => ({ lastPollMs: before(seconds), lastWorker: '7@a', isBusy: false })
  assert.equal(judgeSilence('train/demo-a', polled(5), clock), null)
  assert.match(
    judgeSilence('train/demo-a', polled(90), clock)?.error?.message ?? '',
    /no worker polls queue control since/,
  )
  const unpolled = judgeSilence('train/demo-a', { lastPollMs: null, lastWorker: null, isBusy: false }, clock)
  assert.equal(unpolled?.on.name, 'control')
})

test('drained sandbox hosts are the blocker when all are drained, with the fix, even when workers have polled since', () => {
  const drain = { since: '2026-11-21T11:50:00.000Z', moving: false, moveAt: null }
  const host = { queue: 'q', state: 'drained', drain, lastSign: null, facts: null } as const
  const drained = [
    { ...host, host: 'a' },
    { ...host, host: 'b' },
  ]
  const queued = { state: 'queued', activity: 'openSandbox', queue: 'placement', heartbeat: null } as const
  const finding = judge(queued, { drained, lastPollMs: before(1), isBusy: true })
  assert.deepEqual(
    [finding?.on, finding?.isBlocker, finding?.error],
    [
      { kind: 'host', name: 'a, b' },
      true,
      {
        code: 'Host.Closed',
        message: 'every sandbox host is drained: a since 2026-11-21T11:50:00.000Z, b since 2026-11-21T11:50:00.000Z',
      },
    ],
  )
  assert.match(adviceFor({ kind: 'host', name: 'a, b' }, 'Host.Closed'), /longhaul host uncordon/)
  assert.equal(judge(queued, { drained: [], lastPollMs: before(1) })?.isBlocker, false)
})
