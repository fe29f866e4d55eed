/** The list of runs on a real server. The test answers workflow tasks itself, so that runs end with the results that it chooses. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { defaultPayloadConverter } from '@temporalio/common'
import proto from '@temporalio/proto'
import { eventually } from '../../test/support/hang.ts'
import { connectToOwnNamespace, needsServer } from '../../test/support/own-namespace.ts'
import { requireRunThere } from '../cli/local-stack.ts'
import { workflowIds } from '../contracts/workflow-ids.ts'
import type { LonghaulConnection } from './connect.ts'
import { headlineScore, listRuns } from './list-runs.ts'
import type { ROOT_IDS } from './start.ts'

const { CommandType } = proto.temporal.api.enums.v1
const TRAINED = { name: 'rl', policy: 'v000002-aaaaaaaa', passAt1: 0.7, sem: 0.04, tasks: 128, attempts: 1 }
const queue = 'scripted'
const POLL_MS = 30_000
let connection: LonghaulConnection

before(async () => {
  if (needsServer === false) connection = await connectToOwnNamespace('list-runs')
})

after(async () => {
  await connection?.close()
})

async function start(type: keyof typeof ROOT_IDS, workflowId: string): Promise<void> {
  await connection.client.workflow.start(type, { workflowId, taskQueue: queue })
}

type Command = proto.temporal.api.command.v1.ICommand

async function takeTask(): Promise<Uint8Array> {
  const { client, namespace } = connection
  const { taskToken } = await client.withDeadline(Date.now() + POLL_MS, () =>
    client.workflowService.pollWorkflowTaskQueue({ namespace, taskQueue: { name: queue } }),
  )
  return taskToken
}

async function answerTask(command: Command): Promise<void> {
  const { client, namespace } = connection
  const taskToken = await takeTask()
  await client.workflowService.respondWorkflowTaskCompleted({ namespace, taskToken, commands: [command] })
}

const payloads = (value: unknown) => ({ payloads: [defaultPayloadConverter.toPayload(value)] })

const complete = (result: unknown): Command => ({
  commandType: CommandType.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION,
  completeWorkflowExecutionCommandAttributes: { result: payloads(result) },
})

const continueAsNew = (type: string): Command => ({
  commandType: CommandType.COMMAND_TYPE_CONTINUE_AS_NEW_WORKFLOW_EXECUTION,
  continueAsNewWorkflowExecutionCommandAttributes: { workflowType: { name: type }, taskQueue: { name: queue } },
})

test('runs are listed with kind, dates and score, those under way first, and a run that continues as new once', {
  skip: needsServer,
}, async () => {
  await start('gradePredictions', workflowIds.grading('patches'))
  await answerTask(continueAsNew('gradePredictions'))
  await answerTask(complete({ run: 'patches', graded: { mean: 0.5, sem: 0.1, interval: null, tasks: 4, attempts: 1 } }))
  await start('evaluate', workflowIds.evaluation('open'))
  // Taken and never answered: the run is under way for as long as the test looks.
  await takeTask()
  await start('trainAgent', workflowIds.train('trained'))
  await answerTask(complete({ run: 'trained', policy: TRAINED.policy, stages: [TRAINED] }))

  const runs = await eventually(async () => {
    const found = await listRuns({ connection, scores: true })
    assert.deepEqual(
      found.map(({ workflowId, status }) => [workflowId, status]),
      [
        ['eval/open', 'RUNNING'],
        ['train/trained', 'COMPLETED'],
        ['grade/patches', 'COMPLETED'],
      ],
    )
    return found
  })
  assert.deepEqual(
    runs.map(({ kind, score }) => [kind, score]),
    [
      ['eval', null],
      ['train', { name: 'rl', passAt1: 0.7, sem: 0.04, tasks: 128 }],
      ['grade', { name: null, passAt1: 0.5, sem: 0.1, tasks: 4 }],
    ],
  )
  const [, trained, graded] = runs
  assert.ok(trained?.closedAt instanceof Date && graded?.closedAt instanceof Date)
  const first = await connection.client.workflow.getHandle('grade/patches').fetchHistory()
  const { firstExecutionRunId } = first.events?.[0]?.workflowExecutionStartedEventAttributes ?? {}
  assert.ok(firstExecutionRunId)
  const chain = connection.client.workflow.getHandle('grade/patches', firstExecutionRunId)
  assert.deepEqual(graded.startedAt, (await chain.describe()).startTime, 'the start of the first execution')
  assert.ok((await listRuns({ connection })).every(({ score }) => score === null))
})

test('a mistyped name of a run is refused with the nearest one', { skip: needsServer }, async () => {
  await start('evaluate', workflowIds.evaluation('night-2026-11-20-a'))
  await eventually(() =>
    assert.rejects(requireRunThere(connection, 'nigth-2026-11-20-a'), {
      code: 'Config.NotFound',
      message: /^No run is called "nigth-2026-11-20-a"; did you mean night-2026-11-20-a\? longhaul run list/,
    }),
  )
  await assert.rejects(requireRunThere(connection, 'unlike'), { message: /^No run is called "unlike" \(closed runs/ })
})

test('the score of a training run is that of its last evaluation on the held-out suite', () => {
  const stages = ['base', 'rl', 'rl.verified', 'dapo-1-0003'].map((name) => ({ ...TRAINED, name }))
  assert.equal(headlineScore('trainAgent', { stages })?.name, 'rl')
  assert.equal(headlineScore('trainAgent', { stages: [] }), null)
})

test('a result of another form has no score', () => {
  for (const result of [null, 7, 'text', {}, { stages: [{ name: 'rl' }] }, { graded: null }])
    for (const type of ['trainAgent', 'evaluate', 'gradePredictions']) assert.equal(headlineScore(type, result), null)
})
