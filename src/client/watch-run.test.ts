/** How a run of a real server ended; the test answers workflow tasks itself, in place of a control worker. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import proto from '@temporalio/proto'
import { connectToOwnNamespace, needsServer } from '../../test/support/own-namespace.ts'
import type { LonghaulConnection } from './connect.ts'
import { outcomeOf } from './watch-run.ts'

const { CommandType } = proto.temporal.api.enums.v1
type Command = proto.temporal.api.command.v1.ICommand

describe('the end of a run', { skip: needsServer }, () => {
  let connection: LonghaulConnection
  before(async () => {
    connection = await connectToOwnNamespace('outcomes')
  })
  after(() => connection?.close())

  /** Starts a workflow of its own queue and ends it with the failure, after the commands. */
  async function failWith(type: string, commands: readonly Command[] = []) {
    const { client, namespace } = connection
    const queue = `queue-${commands.length}-${type}`
    const handle = await client.workflow.start('evaluate', { taskQueue: queue, workflowId: `eval/${queue}` })
    const task = await client.withDeadline(Date.now() + 60_000, () =>
      client.workflowService.pollWorkflowTaskQueue({ namespace, taskQueue: { name: queue }, identity: 'test' }),
    )
    const failure = { message: 'nothing there', applicationFailureInfo: { type, nonRetryable: true } }
    await client.workflowService.respondWorkflowTaskCompleted({
      namespace,
      taskToken: task.taskToken,
      identity: 'test',
      commands: [
        ...commands,
        {
          commandType: CommandType.COMMAND_TYPE_FAIL_WORKFLOW_EXECUTION,
          failWorkflowExecutionCommandAttributes: { failure },
        },
      ],
    })
    return outcomeOf(handle)
  }

  test('only input that is refused before any child or grading has used no machine', async () => {
    const child: Command = {
      commandType: CommandType.COMMAND_TYPE_START_CHILD_WORKFLOW_EXECUTION,
      startChildWorkflowExecutionCommandAttributes: {
        namespace: connection.namespace,
        workflowId: 'eval/child',
        workflowType: { name: 'gateTasks' },
        taskQueue: { name: 'none' },
      },
    }
    const failed = { status: 'failed', message: 'nothing there' }
    assert.deepEqual(await failWith('Config.NotFound'), { ...failed, code: 'Config.NotFound', hasPlayed: false })
    assert.deepEqual(await failWith('Config.NotFound', [child]), {
      ...failed,
      code: 'Config.NotFound',
      hasPlayed: true,
    })
    const grading: Command = {
      commandType: CommandType.COMMAND_TYPE_SCHEDULE_ACTIVITY_TASK,
      scheduleActivityTaskCommandAttributes: {
        activityId: '1',
        activityType: { name: 'gateTask' },
        taskQueue: { name: 'none' },
        startToCloseTimeout: { seconds: 60 as never },
      },
    }
    const refused = { ...failed, code: 'Task.Invalid' }
    assert.deepEqual(await failWith('Task.Invalid'), { ...refused, hasPlayed: false })
    assert.deepEqual(await failWith('Task.Invalid', [grading]), { ...refused, hasPlayed: true })
    assert.deepEqual(await failWith('Trainer.Diverged'), { ...failed, code: 'Trainer.Diverged' })
  })
})
