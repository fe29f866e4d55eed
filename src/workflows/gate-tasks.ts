import {
  continueAsNew,
  executeChild,
  ParentClosePolicy,
  setCurrentDetails,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow'
import { workflowIds } from '../contracts/workflow-ids.ts'
import type { GateTasksInput, GateTasksResult, PreparedSuite, ResolvedRun } from '../contracts/workflows.types.ts'
import { gating, slowControl } from './activity-proxies.ts'
import { failRun, withCode } from './failures.ts'
import { blockersQuery } from './run-control.ts'
import { sideBySide } from './side-by-side.ts'

/** Tasks in flight: hosts limit how many containers start at once, this limits pending activities. */
const OPEN_TASKS = 16

/**
 * Admits a task where its gold patch resolves and the empty patch does not, every time. Activities: one for each ten minutes of a
 * task; gradings are records, so a second gating of the same tasks starts no container. Continues as new when suggested. On
 * cancel the open gradings end, their containers with them.
 */
export async function gateTasks(input: GateTasksInput): Promise<GateTasksResult> {
  const { plan, suite } = input
  setHandler(blockersQuery, () => ({
    run: plan.run,
    waits: [
      {
        on: { kind: 'workflow', name: workflowInfo().workflowId },
        doing: `gating ${suite.tasks} tasks of ${suite.name}, begun with ${input.from ?? 0}`,
        since: workflowInfo().runStartTime.toISOString(),
        toDo: null,
      },
    ],
  }))
  const page = await gatePage({ plan, suite, from: input.from ?? 0, refused: input.failed ?? 0 })
  if (page.next < suite.tasks) {
    return continueAsNew<typeof gateTasks>({ ...input, from: page.next, failed: page.refused })
  }
  const gate = await slowControl.closeGate({ run: plan.run, suite: suite.suite })
  return { suite: suite.suite, ...gate }
}

export interface GatePageInput {
  plan: ResolvedRun
  suite: PreparedSuite
  from: number
  refused: number
  /** Told after each task. */
  onTask?: (done: { tasks: number; refused: number }) => void
}

/** Gates tasks side by side until all are done or the history is long. @returns the first task that was not begun */
export async function gatePage(input: GatePageInput): Promise<{ next: number; refused: number }> {
  const { plan, suite, onTask } = input
  let { from: next, refused } = input
  let ended = next
  const playNext = async (): Promise<boolean> => {
    if (next >= suite.tasks || workflowInfo().continueAsNewSuggested) return false
    try {
      if (!(await gateTask(plan, suite, next++))) refused += 1
    } finally {
      ended += 1
      setCurrentDetails(`gated ${ended} of ${suite.tasks} tasks of ${suite.name}, ${refused} refused so far`)
      onTask?.({ tasks: ended, refused })
    }
    return true
  }
  try {
    await sideBySide({ lanes: OPEN_TASKS, onFailure: 'finish', playNext })
  } catch (error) {
    throw withCode(error)
  }
  return { next, refused }
}

/** Every check and repeat of one task. @returns whether it is admitted */
async function gateTask(plan: ResolvedRun, suite: PreparedSuite, index: number): Promise<boolean> {
  for (let step = 1; ; step++) {
    const summary = `${suite.name} · task ${index} · × ${plan.gateRepeats}${step === 1 ? '' : ` · step ${step}`}`
    const { done, ok } = await gating.gateTask.executeWithOptions({ summary }, [
      { run: plan.run, suite: suite.suite, index, step },
    ])
    if (done) return ok
  }
}

/** Gates one suite as a child under the caller, which goes on only where a task is left to play. */
export async function gateAsChild({ plan, suite }: { plan: ResolvedRun; suite: PreparedSuite }): Promise<void> {
  const { admitted } = await executeChild(gateTasks, {
    workflowId: workflowIds.gate(workflowIds.train(plan.run), suite.name),
    args: [{ plan, suite }],
    parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
    staticSummary: `${suite.name} · gold and empty × ${plan.gateRepeats}`,
  })
  if (admitted > 0) return
  throw failRun('Task.GateFailed', `No task of ${suite.name} passed its gate: gold must resolve and empty must not`)
}
