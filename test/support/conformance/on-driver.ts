import type { WorkflowBundle } from '../workflow-bundle.ts'
import { createWorkflowDriver } from '../workflow-driver.ts'
import type { WorkflowHandle } from '../driver/workflow-handle.ts'
import { NO_WORKER, type PlayedWorkflow, type Scenario, type Stage } from './scenarios.ts'
import { nameOf, traceOf } from './trace.ts'

export type Traces = Record<string, string[]>

/** Plays a scenario on the workflow driver. @returns a trace for each run, by workflow id and number */
export async function playOnDriver(name: string, scenario: Scenario, bundle: WorkflowBundle): Promise<Traces> {
  const driver = await createWorkflowDriver<{ work(input: unknown): Promise<unknown> }>({
    bundle,
    activities: { work: (input, call) => scenario.work?.(input, call) },
  })
  const idOf = (role: string) => `${name}/${role}`
  const stage: Stage = {
    async start(type, input, role = 'root') {
      return played(driver.start(type, { scenario: name, ...input }, { workflowId: idOf(role) }))
    },
    workflow: (role) => played(driver.handle(idOf(role))),
    release: () => undefined,
    rest: () => driver.advance(1_000),
    begun: (attempts) => driver.runUntil(() => driver.callsOf('work').length >= attempts),
    reached: (role, event) =>
      driver.runUntil(() =>
        driver.runs
          .filter((run) => run.workflowId === idOf(role))
          .some(({ history }) => history.events.some((one) => nameOf(one) === event)),
      ),
  }
  driver.stopQueue(NO_WORKER)
  await scenario.play(stage)
  await driver.runToIdle()
  const runs = Map.groupBy(driver.runs, ({ workflowId }) => workflowId)
  return Object.fromEntries(
    [...runs].flatMap(([workflowId, list]) =>
      list.map((run, index) => [`${roleOf(workflowId)} ${index + 1}`, traceOf(run.history.events)]),
    ),
  )
}

export function roleOf(workflowId: string): string {
  return workflowId.slice(workflowId.lastIndexOf('/') + 1)
}

function played(handle: WorkflowHandle): PlayedWorkflow {
  return {
    signal: async (name) => handle.signal(name),
    cancel: async () => handle.cancel(),
    terminate: async () => handle.terminate(),
    update: (name, arg) =>
      handle.update(name, arg).then(
        (result) => `result ${JSON.stringify(result)}`,
        (error: Error) => error.message,
      ),
  }
}
