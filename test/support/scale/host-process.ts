/**
 * A sandbox host of a measurement: the production's activities and worker settings with scripted sandboxes and a scripted policy. Runs
 * until SIGTERM.
 *
 *   node test/support/scale/host-process.ts '{"host":"h1","folder":"/…","turns":60,"thinkMs":0,"together":1}'
 *
 * All other settings come from a worker's environment.
 */
import { mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DefaultLogger, NativeConnection, Runtime, type Worker } from '@temporalio/worker'
import { createHostDoor } from '../../../src/activities/runtime/host-door.ts'
import { createPlanReader } from '../../../src/activities/grading/stored-plan.ts'
import {
  createRecipeReader,
  createSuiteReader,
  createTaskReader,
} from '../../../src/activities/runtime/stored-records.ts'
import { openArtifactStore } from '../../../src/adapters/artifacts/open-store.ts'
import type { ArtifactStore } from '../../../src/contracts/artifacts.types.ts'
import { QUEUES } from '../../../src/contracts/workflow-ids.ts'
import { ownSandboxesWorker } from '../../../src/workers/compose-sandbox.ts'
import { PASS_THROUGH } from '../../../src/workers/connect.ts'
import { createWorkers } from '../../../src/workers/run-worker.ts'
import { createSandboxActivities } from '../../../src/workers/sandbox-activities.ts'
import { readWorkerEnvironment, type WorkerEnvironment } from '../../../src/workers/worker-environment.ts'
import { createCommonStart } from './common-start.ts'
import { createScriptedPolicy, type ScriptedPolicyOptions } from './scripted-policy.ts'
import { createScriptedSandboxes } from './scripted-sandboxes.ts'

export interface HostProcessInput extends Omit<ScriptedPolicyOptions, 'start'> {
  host: string
  /** Contains a folder for each host, with the host's name. */
  folder: string
  /** No episode of any host continues before this many wait for their first sample. */
  together: number
}

/** As in production. */
const OPENING = 8
const GRADING = 24

async function main(input: HostProcessInput): Promise<void> {
  // The process leads its own group, so it would survive a killed test.
  const parent = process.ppid
  setInterval(() => process.ppid === parent || process.exit(1), 1_000).unref()
  Runtime.install({ logger: new DefaultLogger('WARN', ({ message }) => process.stderr.write(`${message}\n`)) })
  const environment = readWorkerEnvironment()
  const { temporal } = environment
  const connection = await NativeConnection.connect({ address: temporal.address, ...temporal.credentials })
  const store = await openArtifactStore({ location: environment.artifacts, check: false, weights: environment.weights })
  const { activities, own } = hostOf({ input, store, environment })
  const workers = await createWorkers(connection, temporal, [
    { taskQueue: QUEUES.placement, maxConcurrentActivityTaskExecutions: OPENING, activities },
    { taskQueue: QUEUES.sandbox, maxConcurrentActivityTaskExecutions: GRADING, activities },
    own,
  ])
  const stopAll = (): void => {
    for (const worker of workers) if (worker.getState() === 'RUNNING') worker.shutdown()
  }
  await Promise.all(workers.map((worker: Worker) => worker.run().finally(stopAll)))
  await connection.close()
}

function hostOf({ input, store, environment }: HostInput) {
  const { host, together, turns, thinkMs } = input
  const hostQueue = QUEUES.sandboxHost(host, 'scale')
  const folder = join(input.folder, host)
  mkdirSync(folder, { recursive: true })
  const sandbox = createScriptedSandboxes({ folder, hostQueue })
  const door = createHostDoor(host)
  const shared = { store, sandbox, recipes: createRecipeReader(store), tasks: createTaskReader(store) }
  const never = (): never => {
    throw new Error('Expected no gate and no image in a measurement of episodes')
  }
  const activities = createSandboxActivities({
    ...shared,
    hostId: host,
    leaseMs: environment.leaseMs,
    door,
    suites: createSuiteReader(store),
    plans: createPlanReader(store),
    ensureImage: async () => undefined,
    verifyImage: never,
    finder: { here: never, elsewhere: never } as never,
  })
  const start = createCommonStart({ folder: dirname(input.folder), name: host, together })
  const policy = createScriptedPolicy({ turns, thinkMs, ...(together > 1 ? { start } : {}) })
  const between = { ...PASS_THROUGH, policy: () => policy }
  return { activities, own: ownSandboxesWorker({ hostQueue, shared, door, look: never }, environment, between) }
}

interface HostInput {
  input: HostProcessInput
  store: ArtifactStore
  environment: WorkerEnvironment
}

await main(JSON.parse(process.argv[2] ?? '{}') as HostProcessInput)
