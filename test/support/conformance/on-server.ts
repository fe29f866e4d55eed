import { setTimeout as sleep } from 'node:timers/promises'
import { Context } from '@temporalio/activity'
import { type Client, isGrpcServiceError, type WorkflowHandle, WorkflowUpdateFailedError } from '@temporalio/client'
import type { TestWorkflowEnvironment } from '@temporalio/testing'
import { Worker } from '@temporalio/worker'
import { QUEUES } from '../../../src/contracts/workflow-ids.ts'
import { ScriptedOutcome } from '../activity-script.ts'
import type { HistoryEvent } from '../history-builder.ts'
import type { WorkflowBundle } from '../workflow-bundle.ts'
import { HANG_MS } from '../hang.ts'
import { roleOf, type Traces } from './on-driver.ts'
import type { PlayedWorkflow, Scenario, Stage } from './scenarios.ts'
import { nameOf, traceOf } from './trace.ts'

/** On two cores, more would only wait for each other. */
const AT_A_TIME = 12
const POLL_MS = 150
/** gRPC status. */
const NOT_FOUND = 5

/** Plays all scenarios on one server, several at a time. */
export async function playOnServer(
  environment: TestWorkflowEnvironment,
  scenarios: Record<string, Scenario>,
  bundle: WorkflowBundle,
): Promise<Record<string, Traces>> {
  const begun = new Map<string, number>()
  const gates = new Map(Object.keys(scenarios).map((name) => [name, Promise.withResolvers<void>()]))
  const worker = await Worker.create({
    connection: environment.nativeConnection,
    taskQueue: QUEUES.control,
    workflowBundle: bundle,
    // Cancellations arrive with the replies to heartbeats.
    shutdownForceTime: '5s',
    maxHeartbeatThrottleInterval: '50ms',
    defaultHeartbeatThrottleInterval: '50ms',
    activities: {
      work: (input: { scenario: string }) => {
        begun.set(input.scenario, (begun.get(input.scenario) ?? 0) + 1)
        const { info } = Context.current()
        return perform(() => scenarios[input.scenario]?.work?.(input, info), gates.get(input.scenario)?.promise)
      },
    },
  })
  const { client } = environment
  return worker.runUntil(async () =>
    Object.fromEntries(
      await mapSome(AT_A_TIME, Object.entries(scenarios), async ([name, scenario]): Promise<[string, Traces]> => {
        const roots: WorkflowRunRef[] = []
        await scenario.play(
          stageFor({
            client,
            name,
            roots,
            begun: () => begun.get(name) ?? 0,
            release: () => gates.get(name)?.resolve(),
          }),
        )
        return [name, await collect(client, roots)]
      }),
    ),
  )
}

/** Performs a scripted answer as a worker would. */
async function perform(script: () => unknown, gate: Promise<void> | undefined): Promise<unknown> {
  const context = Context.current()
  const scripted = script()
  if (!(scripted instanceof ScriptedOutcome)) return scripted
  const { outcome } = scripted
  if (outcome.kind === 'times-out') {
    for (let beats = outcome.lastHeartbeat === undefined ? 0 : 3; beats > 0; beats--) {
      context.heartbeat(outcome.lastHeartbeat)
      await sleep(100)
    }
    return context.cancelled
  }
  const beats = context.info.heartbeatTimeoutMs ? setInterval(() => context.heartbeat(), 200) : undefined
  try {
    const ended = outcome.ms === Number.MAX_SAFE_INTEGER ? context.cancelled : gate
    await (outcome.ignoresCancel ? ended : Promise.race([ended, context.cancelled]))
    return outcome.end()
  } finally {
    clearInterval(beats)
  }
}

interface WorkflowRunRef {
  workflowId: string
  runId: string
}

function stageFor(input: {
  client: Client
  name: string
  roots: WorkflowRunRef[]
  begun: () => number
  release: () => void
}): Stage {
  const { client, name, roots, begun, release } = input
  const idOf = (role: string) => `${name}/${role}`
  return {
    async start(type, changes, role = 'root') {
      const workflowId = idOf(role)
      const handle = await client.workflow.start(type, {
        workflowId,
        taskQueue: QUEUES.control,
        args: [{ scenario: name, ...changes }],
      })
      roots.push({ workflowId, runId: handle.firstExecutionRunId })
      return played(client.workflow.getHandle(workflowId))
    },
    workflow: (role) => played(client.workflow.getHandle(idOf(role))),
    release,
    rest: () => sleep(1_000),
    begun: (attempts) => until(async () => begun() >= attempts, `${attempts} attempts in "${name}"`),
    reached: (role, event) =>
      until(
        async () => (await eventsOf(client, { workflowId: idOf(role) })).some((one) => nameOf(one) === event),
        `${event} of ${role} in "${name}"`,
      ),
  }
}

function played(handle: WorkflowHandle): PlayedWorkflow {
  return {
    signal: (name) => handle.signal(name),
    cancel: async () => void (await handle.cancel()),
    terminate: async () => void (await handle.terminate('by the test')),
    update: (name, arg) =>
      handle.executeUpdate<unknown, [unknown]>(name, { args: [arg] }).then(
        (result) => `result ${JSON.stringify(result)}`,
        (error: unknown) => {
          if (error instanceof WorkflowUpdateFailedError) return error.cause?.message ?? ''
          throw error
        },
      ),
  }
}

/** Collects the roots, their children and their continuations, each once it has closed. */
async function collect(client: Client, roots: WorkflowRunRef[]): Promise<Traces> {
  const traces: Traces = {}
  const counted = new Map<string, number>()
  const waiting = [...roots]
  for (let run = waiting.shift(); run !== undefined; run = waiting.shift()) {
    const { workflowId, runId } = run
    await client.workflow
      .getHandle(workflowId, runId, { followRuns: false })
      .result()
      .catch(() => undefined)
    const events = await eventsOf(client, run)
    const number = (counted.get(workflowId) ?? 0) + 1
    counted.set(workflowId, number)
    traces[`${roleOf(workflowId)} ${number}`] = traceOf(events)
    for (const event of events) {
      const next = event.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId
      if (next) waiting.push({ workflowId, runId: next })
      const child = event.childWorkflowExecutionStartedEventAttributes?.workflowExecution
      if (child) waiting.push({ workflowId: child.workflowId ?? '', runId: child.runId ?? '' })
    }
  }
  return traces
}

async function eventsOf(client: Client, { workflowId, runId }: Partial<WorkflowRunRef>): Promise<HistoryEvent[]> {
  try {
    return (await client.workflow.getHandle(workflowId ?? '', runId).fetchHistory()).events ?? []
  } catch (error) {
    // The parent has not started this child yet.
    if (isGrpcServiceError(error) && error.code === NOT_FOUND) return []
    throw error
  }
}

async function until(condition: () => Promise<boolean>, what: string): Promise<void> {
  for (const deadline = Date.now() + HANG_MS; !(await condition()); ) {
    if (Date.now() > deadline) throw new Error(`Expected ${what}`)
    await sleep(POLL_MS)
  }
}

async function mapSome<T, R>(atATime: number, items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  const left = items.map((item, index) => [index, item] as const)
  const lane = async (): Promise<void> => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) results[next[0]] = await work(next[1])
  }
  await Promise.all(Array.from({ length: atATime }, lane))
  return results
}
