import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common'
import { type ChildWorkflowOptions, executeChild, log, sleep, startChild } from '@temporalio/workflow'
import { failRun } from './failures.ts'

/** A child whose parent was terminated first closes its sandboxes and records its episodes: as long as a command lasts, or until a worker is back. */
const CLOSING_WAIT_MS = 60 * 60_000
const LOOK_EVERY_MS = 5_000

/** Starts a child and waits for its result; it first waits for the execution of an earlier parent that still has the id and plays the same episodes. */
export async function runChild<Input, Result>(
  workflow: (input: Input) => Promise<Result>,
  options: Omit<ChildWorkflowOptions, 'typeInfo'> & { workflowId: string; args: [Input] },
  onStarted?: () => void,
): Promise<Result> {
  const { workflowId } = options
  for (let waitedMs = 0; ; waitedMs += LOOK_EVERY_MS) {
    try {
      if (onStarted === undefined) return await executeChild(workflow, options)
      const child = await startChild(workflow, options)
      onStarted()
      return await child.result()
    } catch (error) {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error
      if (waitedMs >= CLOSING_WAIT_MS) {
        throw failRun(
          'Run.StillClosing',
          `Expected the earlier execution of ${workflowId} to close within an hour. See what it waits for, or terminate it: temporal workflow terminate --workflow-id ${workflowId}`,
        )
      }
      if (waitedMs === 0) log.warn('an earlier execution is still closing, waiting for it', { workflowId })
      await sleep(LOOK_EVERY_MS, { summary: `the earlier execution of ${workflowId} is closing`.slice(0, 200) })
    }
  }
}
