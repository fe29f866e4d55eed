/** A workflow that nothing will wake, as after an older database was restored: workflow tasks are answered by hand, as such a worker does. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Client } from '@temporalio/client'
import { defaultPayloadConverter } from '@temporalio/common'
import { msToTs } from '@temporalio/common/lib/time.js'
import { type Blocker, findBlockers, type LonghaulConnection } from '../../src/client/index.ts'
import { findStuck } from '../../src/client/blockers/pending-activities.ts'
import { eventually, HANG_MS } from '../support/hang.ts'
import { connectToOwnNamespace, needsServer } from '../support/own-namespace.ts'

type Answer = Parameters<Client['workflowService']['respondWorkflowTaskCompleted']>[0]
type Command = NonNullable<Answer['commands']>[number]

type QueryAnswer = Parameters<Client['workflowService']['respondQueryTaskCompleted']>[0]

/** `temporal.api.enums.v1.QueryResultType`, like the types below. */
const ANSWERED: unknown = 1
/** `temporal.api.enums.v1.CommandType`, whose package is none of the client's. */
const TYPES: Record<'startTimer' | 'cancelTimer', unknown> = { startTimer: 3, cancelTimer: 6 }

const timer = (timerId: string): Command => ({
  commandType: TYPES.startTimer as NonNullable<Command['commandType']>,
  startTimerCommandAttributes: { timerId, startToFireTimeout: msToTs('1 hour') },
})
const withoutTimer = (timerId: string): Command => ({
  commandType: TYPES.cancelTimer as NonNullable<Command['commandType']>,
  cancelTimerCommandAttributes: { timerId },
})

let connection: LonghaulConnection
const started: string[] = []

before(async () => {
  if (needsServer === false) connection = await connectToOwnNamespace('stuck')
})

after(async () => {
  for (const workflowId of started) await connection.client.workflow.getHandle(workflowId).terminate()
  await connection?.close()
})

/** Answers the workflow's tasks, one after another, with these commands; a signal makes each further one. */
async function play(workflowId: string, tasks: Command[][]): Promise<void> {
  const { client, namespace } = connection
  await client.workflow.start('reinforce', { workflowId, taskQueue: workflowId, args: [] })
  started.push(workflowId)
  for (const [index, commands] of tasks.entries()) {
    if (index > 0) await client.workflow.getHandle(workflowId).signal('next')
    const { taskToken } = await client.withDeadline(Date.now() + HANG_MS, () =>
      client.workflowService.pollWorkflowTaskQueue({ namespace, taskQueue: { name: workflowId } }),
    )
    await client.workflowService.respondWorkflowTaskCompleted({ namespace, taskToken, commands })
  }
}

/** Answers one query, as a worker does that has the workflow in memory. */
async function answerQuery(workflowId: string, answer: unknown): Promise<void> {
  const { client, namespace } = connection
  const { taskToken, query } = await client.withDeadline(Date.now() + HANG_MS, () =>
    client.workflowService.pollWorkflowTaskQueue({ namespace, taskQueue: { name: workflowId } }),
  )
  assert.equal(query?.queryType, 'blockers')
  await client.workflowService.respondQueryTaskCompleted({
    namespace,
    taskToken,
    completedType: ANSWERED as NonNullable<QueryAnswer['completedType']>,
    queryResult: { payloads: [defaultPayloadConverter.toPayload(answer)] },
  })
}

const stuckAt = async (workflowId: string, longerThanMs: number): Promise<Blocker[]> => {
  const { blockers } = await findBlockers({ connection, workflowId, longerThanMs })
  return blockers.filter(({ on }) => on.kind === 'workflow')
}

test('names a workflow that waits for nothing, with the command that wakes it', { skip: needsServer }, async () => {
  const workflowId = 'train/stuck/dapo-1'
  await play(workflowId, [[timer('1')], [withoutTimer('1')], []])
  const [blocker, ...others] = await eventually(async () => {
    const found = await stuckAt(workflowId, 1)
    assert.equal(found.length, 1)
    return found
  })
  assert.deepEqual(others, [])
  assert.deepEqual([blocker?.on.name, blocker?.for.stage], [workflowId, 'dapo-1'])
  assert.match(
    blocker?.toDo ?? '',
    /temporal workflow reset --workflow-id train\/stuck\/dapo-1 --type LastWorkflowTask/,
  )
  // It may have answered a moment ago.
  assert.deepEqual(await stuckAt(workflowId, 3_600_000), [])
})

// A run that is open always says which phase it is in.
test('names it also for a run that says what it does now', { skip: needsServer }, async () => {
  const workflowId = 'train/tells'
  await play(workflowId, [[timer('1')], [withoutTimer('1')], []])
  const now = {
    on: { kind: 'workflow', name: workflowId },
    doing: 'training',
    since: new Date(0).toISOString(),
    toDo: null,
  }
  await eventually(async () => {
    const [{ self, blockers }] = await Promise.all([
      findBlockers({ connection, workflowId, longerThanMs: 1 }),
      answerQuery(workflowId, { run: 'tells', waits: [now] }),
    ])
    assert.deepEqual(self?.waits, [now])
    assert.deepEqual(
      blockers.map(({ on }) => on.name),
      [workflowId],
    )
  })
})

test('a workflow that waits with a timer, also an old one, is not stuck', { skip: needsServer }, async () => {
  const workflowId = 'train/sleeps/dapo-1'
  await play(workflowId, [[timer('old'), timer('1')], [withoutTimer('1')], []])
  assert.deepEqual(await stuckAt(workflowId, 1), [])
})

test('is found behind many workflows that wait with a timer', { skip: needsServer }, async () => {
  const names = Array.from({ length: 20 }, (_, index) => `train/many/dapo-${index + 1}`)
  const last = names.at(-1) ?? ''
  await Promise.all(
    names.map((name) => play(name, name === last ? [[timer('1')], [withoutTimer('1')]] : [[timer('1')]])),
  )
  const idle = await Promise.all(
    names.map(async (workflowId) => {
      const { runId } = await connection.client.workflow.getHandle(workflowId).describe()
      return { workflowId, runId }
    }),
  )
  const stuck = await eventually(async () => {
    const found = await findStuck(connection, idle, (sinceMs) => Date.now() - sinceMs > 1)
    assert.equal(found.length, 1)
    return found
  })
  assert.equal(stuck[0]?.workflowId, last)
})
