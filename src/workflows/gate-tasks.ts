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
import { grading, slowControl } from './activity-proxies.ts'
import { withCode } from './failures.ts'
import { blockersQuery } from './run-control.ts'

/** Checks in flight: hosts limit how many containers start at once, this limits pending activities. */
const OPEN_CHECKS = 16

/**
 * Admits a task where its gold patch resolves and the empty patch does not, every time. Activities: one per task, check and
 * repeat; results are records, so a second gating of a suite starts no container. Continues as new when suggested.
 */
export async function gateTasks(input: GateTasksInput): Promise<GateTasksResult> {
  const { plan, suite } = input
  let next = input.from ?? 0
  let failed = input.failed ?? 0
  let failure: unknown = null
  setHandler(blockersQuery, () => ({
    run: plan.run,
    waits: [
      {
        on: { kind: 'workflow', name: workflowInfo().workflowId },
        doing: `gating ${suite.tasks} tasks of ${suite.name}, begun with ${next}`,
        since: workflowInfo().runStartTime.toISOString(),
        toDo: null,
      },
    ],
  }))

  // The first failure stops all lanes, and each ends the check it is at: a workflow that closed at once would leave containers
  // behind until their activities learn of it.
  const lane = async (): Promise<void> => {
    while (failure === null && next < suite.tasks && !workflowInfo().continueAsNewSuggested) {
      const index = next++
      try {
        if (!(await gateTask(plan, suite, index))) failed += 1
      } catch (error) {
        failure ??= error
      }
      setCurrentDetails(`gated ${next} of ${suite.tasks} tasks of ${suite.name}, ${failed} refused so far`)
    }
  }
  await Promise.all(Array.from({ length: OPEN_CHECKS }, lane))
  if (failure !== null) throw withCode(failure)
  if (next < suite.tasks) return continueAsNew<typeof gateTasks>({ ...input, from: next, failed })
  const gate = await slowControl.closeGate({ run: plan.run, suite: suite.suite })
  return { suite: suite.suite, ...gate }
}

/** Both checks, every repeat; stops at the first that fails, since one failure refuses the task. */
async function gateTask(plan: ResolvedRun, suite: PreparedSuite, index: number): Promise<boolean> {
  for (let repeat = 1; repeat <= plan.gateRepeats; repeat++) {
    for (const check of ['gold', 'empty'] as const) {
      const summary = `${suite.name} · task ${index} · ${check} · ${repeat}`
      const { ok } = await grading.gateTask.executeWithOptions({ summary }, [
        { run: plan.run, suite: suite.suite, index, check, repeat },
      ])
      if (!ok) return false
    }
  }
  return true
}

/** Starts the gate of one suite as a child under the caller. */
export function gateSuite({ plan, suite }: { plan: ResolvedRun; suite: PreparedSuite }): Promise<GateTasksResult> {
  return executeChild(gateTasks, {
    workflowId: workflowIds.gate(workflowIds.train(plan.run), suite.name),
    args: [{ plan, suite }],
    parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
    staticSummary: `${suite.name} · gold and empty × ${plan.gateRepeats}`,
  })
}
