/** The workflow of a sandbox host, and what an episode does when its host is drained: on a fake clock. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CancelledFailure } from '@temporalio/common'
import type { HostHolder, HostInput, HostState } from '../../src/contracts/hosts.types.ts'
import type { EpisodeResult } from '../../src/contracts/workflows.types.ts'
import { failureOf, takes, timesOut } from '../support/activity-script.ts'
import { EPISODE, HOST_QUEUE, sandboxHandle, scriptedPipeline } from '../support/scripted-pipeline.ts'
import {
  createWorkflowDriver,
  type WorkflowDriver,
  type AllActivities,
  type WorkflowDriverOptions,
} from '../support/workflow-driver.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const DAY = 24 * 60 * MINUTE

const HOLDER: HostHolder = { queue: HOST_QUEUE, engine: 'engine-1 /var/lib/docker' }
const NODE: HostInput = { host: 'node-7', holder: HOLDER, drain: null }
const ID = 'host/node-7'

async function hostWith(options: Partial<WorkflowDriverOptions<AllActivities>> = {}, input = NODE) {
  const driver = await createWorkflowDriver({
    activities: { attendHost: () => takes(DAY / 2, undefined) },
    startTime: '2026-03-04T05:06:07.000Z',
    ...options,
  })
  const host = driver.start('host', input, { workflowId: ID })
  await driver.runUntil(() => driver.callsOf('attendHost').length > 0)
  return { driver, host, state: () => host.describe().memo['host'] as HostState }
}

const present = (driver: WorkflowDriver): number => driver.callsOf('attendHost').length

test('a host can be drained and taken back: its memo says so, and the activity on its queue continues', async () => {
  const { driver, host, state } = await hostWith()
  assert.deepEqual(state(), { holder: HOLDER, drain: null })

  host.signal('drain', { graceMs: null })
  await driver.advance(SECOND)
  const since = '2026-03-04T05:06:07.000Z'
  assert.deepEqual(state().drain, { since, moving: false, moveAt: null, graceMs: null })
  assert.match(await host.currentDetails(), /node-7.*drained since 2026-03-04/)

  host.signal('uncordon')
  await driver.advance(SECOND)
  assert.equal(state().drain, null)
  assert.equal(present(driver), 1)
})

test('open episodes move after the grace time of ten minutes, and a later drain order replaces the earlier one', async () => {
  const { driver, host, state } = await hostWith()
  host.signal('drain', { graceMs: 10 * MINUTE })
  await driver.advance(9 * MINUTE)
  assert.equal(state().drain?.moving, false)
  assert.equal(state().drain?.graceMs, 10 * MINUTE, 'commands recognize a repeated order by its grace time')
  await driver.advance(2 * MINUTE)
  assert.equal(state().drain?.moving, true)
  assert.equal(state().drain?.since, '2026-03-04T05:06:07.000Z')

  host.signal('uncordon')
  host.signal('drain', { graceMs: 10 * MINUTE })
  await driver.advance(MINUTE)
  host.signal('drain', { graceMs: null })
  await driver.advance(20 * MINUTE)
  assert.equal(state().drain?.moving, false, 'the second order has no grace time')
  host.signal('drain', { graceMs: 0 })
  await driver.advance(SECOND)
  assert.equal(state().drain?.moving, true)
})

test('an open host without a worker for ten minutes is removed', async () => {
  const { driver, host } = await hostWith({ activities: { attendHost: () => undefined } })
  driver.stopQueue(HOST_QUEUE)
  const beganMs = driver.nowMs
  assert.deepEqual(await host.result(), { host: 'node-7' })
  assert.ok(driver.nowMs - beganMs >= 10 * MINUTE)
})

test('a drained host stays drained during a week without a worker, and is removed after thirty days', async () => {
  const { driver, host, state } = await hostWith({ activities: { attendHost: () => takes(MINUTE, undefined) } })
  host.signal('drain', { graceMs: 0 })
  await driver.advance(SECOND)
  driver.stopQueue(HOST_QUEUE)
  await driver.advance(7 * DAY)
  const before = present(driver)
  await driver.startQueue(HOST_QUEUE)
  host.signal('arrived', HOLDER)
  await driver.advance(MINUTE / 2)
  assert.ok(present(driver) > before, 'its worker gets a new attendHost')
  assert.equal(state().drain?.moving, true)

  driver.stopQueue(HOST_QUEUE)
  await host.result()
})

test('a machine that takes over the name gets its own queue, and the drain stays', async () => {
  const { driver, host, state } = await hostWith()
  host.signal('drain', { graceMs: null })
  const other: HostHolder = { queue: 'sandbox.node-7.00000000', engine: 'engine-2 /var/lib/docker' }
  host.signal('arrived', other)
  await driver.runUntil(() => present(driver) === 2)
  assert.deepEqual(
    driver.callsOf('attendHost').map(({ taskQueue }) => taskQueue),
    [HOLDER.queue, other.queue],
  )
  assert.deepEqual(state().holder, other)
  assert.notEqual(state().drain, null)

  host.signal('arrived', other)
  await driver.advance(SECOND)
  assert.equal(present(driver), 2, 'a worker that starts again changes nothing')
})

/**
 * While the control worker is away, another machine starts under the name and then the first one again: the server hands over both signals
 * at once. The first was attended anew only where another machine held the name, so the host ended as cancelled and its drain was lost.
 */
test('a host and its drain survive two machines that take the name in turn without a control worker', async () => {
  const { driver, host, state } = await hostWith()
  const other: HostHolder = { queue: 'sandbox.node-7.00000000', engine: 'engine-2 /var/lib/docker' }
  host.signal('drain', { graceMs: null })
  host.signal('arrived', other)
  host.signal('arrived', HOLDER)
  await driver.runUntil(() => !host.isOpen || present(driver) === 2)
  assert.equal(host.isOpen, true)
  assert.equal(driver.callsOf('attendHost').at(-1)?.taskQueue, HOLDER.queue)
  assert.deepEqual(state().holder, HOLDER)
  assert.notEqual(state().drain, null)

  host.cancel()
  await assert.rejects(host.result())
})
// An exception that nobody awaits fails the workflow task, and the server would repeat it forever.
test('a host that is cancelled during the grace time of a drain ends', async () => {
  const { driver, host } = await hostWith()
  host.signal('drain', { graceMs: 10 * MINUTE })
  await driver.advance(SECOND)
  host.cancel()
  await assert.rejects(host.result(), CancelledFailure)
})

test('continue-as-new keeps the drain and the grace time of a host', async () => {
  const { driver, host, state } = await hostWith({
    activities: { attendHost: () => takes(MINUTE, undefined) },
    suggestContinueAsNewAfterEvents: 20,
  })
  host.signal('drain', { graceMs: 30 * MINUTE })
  await driver.advance(20 * MINUTE)
  assert.ok(driver.runs.filter(({ type }) => type === 'host').length > 1, 'it has continued')
  assert.equal(state().drain?.moving, false)
  await driver.advance(11 * MINUTE)
  assert.equal(state().drain?.moving, true)
})

test('a host stays while its worker restarts repeatedly for hours', async () => {
  let killed = 0
  const { driver, host } = await hostWith({
    activities: { attendHost: () => (++killed < 100 ? timesOut('HEARTBEAT') : takes(DAY / 2, undefined)) },
  })
  await driver.runUntil(() => killed === 100)
  assert.equal(host.isOpen, true)
})

test('an episode on a drained host is closed there and opened elsewhere without counting as a loss', async () => {
  const queues = ['sandbox.a.1', 'sandbox.b.2', 'sandbox.c.3', 'sandbox.d.4', 'sandbox.e.5']
  const driver = await createWorkflowDriver({
    activities: {
      ...scriptedPipeline(),
      openSandbox: (input) => sandboxHandle(input, queues[input.placement - 1]),
      // More often than sandboxes may be lost.
      advanceEpisode: ({ placement }) =>
        placement < queues.length
          ? { turns: placement, disposition: null, moving: true }
          : { turns: 9, disposition: 'submitted' },
    },
  })
  const result = await driver.start('episode', EPISODE).result<EpisodeResult>()
  assert.equal(result.disposition, 'submitted')
  assert.equal(driver.callsOf('recordUngraded').length, 0)
  assert.deepEqual(driver.calls.map(({ type, taskQueue }) => `${type} ${taskQueue}`).slice(0, 6), [
    'openSandbox placement',
    'advanceEpisode sandbox.a.1',
    'closeSandbox sandbox.a.1',
    'openSandbox placement',
    'advanceEpisode sandbox.b.2',
    'closeSandbox sandbox.b.2',
  ])
  assert.equal(driver.callsOf('closeSandbox').length, queues.length)
})

test('an episode waits for a place without using up attempts although its host closes ten times', async () => {
  const driver = await createWorkflowDriver({
    activities: {
      ...scriptedPipeline(),
      openSandbox: (input) => {
        if (input.placement <= 10) throw failureOf('Host.Closed')
        return sandboxHandle(input)
      },
    },
  })
  const result = await driver.start('episode', EPISODE).result<EpisodeResult>()
  assert.equal(result.disposition, 'submitted')
  assert.deepEqual(
    driver.callsOf('openSandbox').map(({ attempt }) => attempt),
    Array.from({ length: 11 }, () => 1),
  )
  assert.equal(driver.callsOf('closeSandbox').length, 1)
})
