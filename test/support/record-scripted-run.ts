/**
 * Creates the golden histories of `test/replay/histories/`: real histories of a real server, with scripted activities instead of
 * containers and models, so that they can be recorded again in a minute:
 *
 *   node test/support/record-scripted-run.ts [host]
 *
 * Starts its own server. Runs every workflow type to its end, one run with a pause, a resume and a stop, one that is cancelled, and
 * one that fails by its configuration. `host` plays only the sandbox host.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@temporalio/client'
import { DefaultLogger, type NativeConnection, Runtime, Worker } from '@temporalio/worker'
import { QUEUES } from '../../src/contracts/workflow-ids.ts'
import { type ActivityTable, failureOf } from './activity-script.ts'
import { startLocalServer } from './local-server.ts'
import { recordHistories } from './record-histories.ts'
import { HOST_QUEUE, PLAN, scriptedPipeline } from './scripted-pipeline.ts'
import { buildWorkflowBundle } from './workflow-bundle.ts'
import type { AllActivities } from './workflow-driver.ts'

/** Duration of one report of the host. */
const ATTENDED_MS = 700

const QUEUE_NAMES = [QUEUES.control, QUEUES.sandbox, QUEUES.placement, QUEUES.trainer, QUEUES.artifacts, HOST_QUEUE]

async function main(): Promise<void> {
  Runtime.install({ logger: new DefaultLogger('ERROR') })
  await using server = await startLocalServer()
  const { client, nativeConnection } = server.environment
  const workers = await startWorkers(nativeConnection)
  try {
    const isHostAlone = process.argv[2] === 'host'
    const roots = [...(isHostAlone ? [] : await playScenarios(client)), await playHost(client)]
    const files = await recordHistories({ client, workflowIds: roots, perType: 4 })
    console.log(files.join('\n'))
  } finally {
    for (const worker of workers) worker.shutdown()
    await Promise.all(workers.map(({ done }) => done))
  }
}

async function startWorkers(connection: NativeConnection): Promise<RunningWorker[]> {
  const workflowBundle = await buildWorkflowBundle()
  return Promise.all(
    QUEUE_NAMES.map(async (taskQueue) => {
      const worker = await Worker.create({
        connection,
        taskQueue,
        activities: scriptedActivities(),
        ...(taskQueue === QUEUES.control ? { workflowBundle } : {}),
      })
      const done = worker.run()
      return { shutdown: () => worker.shutdown(), done }
    }),
  )
}

interface RunningWorker {
  shutdown(): void
  done: Promise<void>
}

/** The scripted table as activities of a real worker; the recipe's name determines the course of its run. */
function scriptedActivities(): Record<string, (input: never) => Promise<unknown>> {
  const table: ActivityTable<AllActivities> = {
    ...scriptedPipeline({ steps: 2, tasks: 3, groupSize: 2, maxOpenGroups: 2 }),
    resolveRecipe: ({ recipe }) => {
      if (recipe === 'refused') throw failureOf('Config.Invalid', 'a recipe that is refused')
      return { ...PLAN, run: recipe }
    },
    attendHost: () => sleep(ATTENDED_MS) as never,
    sendAlarm: ({ receiver }) => {
      if (receiver.urlVariable === 'REFUSED') throw failureOf('Alarm.Refused', 'a receiver that wants no alarm')
      return { sent: true }
    },
  }
  const pipeline = Object.entries(table) as [string, (input: never, call: never) => unknown][]
  return Object.fromEntries(
    pipeline.map(([name, script]) => [name, async (input: never) => script(input, undefined as never)]),
  )
}

/** @returns the ids of the root workflows */
async function playScenarios(client: Client): Promise<string[]> {
  const start = (type: string, workflowId: string, input: unknown) =>
    client.workflow.start(type, { taskQueue: QUEUES.control, workflowId, args: [input], workflowRunTimeout: '5m' })

  const plain = await start('trainAgent', 'golden/plain', { recipe: 'golden-plain' })
  await plain.result()

  const steered = await start('trainAgent', 'golden/steered', { recipe: 'golden-steered' })
  await steered.executeUpdate('pause')
  await steered.executeUpdate('resume')
  await steered.executeUpdate('stopAfterIteration', { args: [{ iteration: 1 }] })
  await steered.result()

  const alone = await start('evaluate', 'golden/evaluate', { recipe: 'golden-evaluate' })
  await alone.result()

  const read = await start('readEvaluation', 'golden/read', { run: 'golden-evaluate' })
  await read.result()

  const rules = { blockerMinutes: 30, runs: 'scheduled' }
  const receiver = { urlVariable: 'ALARM_URL', secretVariable: null, template: 'slack' }
  const watched = await start('watch', 'golden/watched', { ...rules, receiver })
  await watched.result()

  const unsent = await start('watch', 'golden/unsent', { ...rules, receiver: { ...receiver, urlVariable: 'REFUSED' } })
  await unsent.result().catch(() => undefined)

  const gated = await start('gateSuite', 'golden/gate', { recipe: 'golden-gate' })
  await gated.result()

  const cancelled = await start('trainAgent', 'golden/cancelled', { recipe: 'golden-cancelled' })
  await cancelled.executeUpdate('pause')
  await cancelled.cancel()
  await cancelled.result().catch(() => undefined)

  const refused = await start('trainAgent', 'golden/refused', { recipe: 'refused' })
  await refused.result().catch(() => undefined)

  const graded = await start('gradePredictions', 'golden/graded', { predictions: 'gold', suite: 'demo:heldOut' })
  await graded.executeUpdate('pause')
  await graded.executeUpdate('resume')
  await graded.result()

  const dropped = await start('gradePredictions', 'golden/dropped', { regrade: 'golden-plain' })
  await dropped.executeUpdate('pause')
  await dropped.cancel()
  await dropped.result().catch(() => undefined)
  const roots = [plain, steered, alone, read, watched, unsent, gated, cancelled, refused, graded, dropped]
  return roots.map(({ workflowId }) => workflowId)
}

/** Drained with a grace time, uncordoned, drained at once, taken over by another machine that is absent. */
async function playHost(client: Client): Promise<string> {
  const holder = { queue: HOST_QUEUE, engine: 'engine-1 /var/lib/docker' }
  const state = { holder, drain: null }
  const host = await client.workflow.start('host', {
    taskQueue: QUEUES.control,
    workflowId: 'host/golden',
    args: [{ host: 'golden', ...state }],
    memo: { host: state },
    workflowRunTimeout: '5m',
  })
  await host.signal('drain', { graceMs: ATTENDED_MS })
  await sleep(3 * ATTENDED_MS)
  await host.signal('uncordon')
  await host.signal('drain', { graceMs: 0 })
  await host.signal('arrived', { queue: 'sandbox.golden.00000000', engine: 'engine-2 /var/lib/docker' })
  await sleep(ATTENDED_MS)
  await host.cancel()
  await host.result().catch(() => undefined)
  return host.workflowId
}

if (import.meta.main) await main()
