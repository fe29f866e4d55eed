/**
 * Real workers, server and adapters around one dependency that stalls. The workflows are the product's, run by a worker of this
 * process with scripted bookkeeping; the role that uses the stalled part is a separate process.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Connection } from '@temporalio/client'
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker'
import { allocateRun } from '../../../src/activities/run/run-names.ts'
import { createDirectoryStore } from '../../../src/adapters/artifacts/directory-store.ts'
import { loadRecipe } from '../../../src/adapters/recipes/load-recipe.ts'
import { type Blocker, findBlockers, type LonghaulConnection } from '../../../src/client/index.ts'
import type { ArtifactRef, ArtifactStore } from '../../../src/contracts/artifacts.types.ts'
import { runKeys } from '../../../src/contracts/keys.ts'
import type { Recipe } from '../../../src/contracts/recipe.types.ts'
import type { EpisodeInput, ResolvedRun } from '../../../src/contracts/workflows.types.ts'
import { hasPoller, prepareNamespace } from '../../../src/stack/temporal-namespace.ts'
import { loadWorkflowBundle } from '../../../src/workers/compose-control.ts'
import type { Role } from '../../../src/workers/run-worker.ts'
import { connectToOwnNamespace } from '../own-namespace.ts'
import { PLAN, policyRef, sandboxHandle, scriptedPipeline } from '../scripted-pipeline.ts'
import { HANG_MS } from '../hang.ts'
import { putPart } from '../record-examples.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))

/** Number of tasks of every plan. */
const PLANNED_TASKS = 10

export interface StallWorld {
  connection: LonghaulConnection
  artifacts: string
  store: ArtifactStore
  /** The answer of `buildBatch` by run; other runs have nothing to train on. */
  batches: Map<string, ArtifactRef>
  /** Starts a worker process and waits until it polls. */
  startRole(role: Role, queue: string, env: Record<string, string>): Promise<ChildProcess>
  /** Stores a recipe for a run. @returns the input of its workflows */
  prepareRun(run: string, change?: (recipe: Recipe) => Recipe): Promise<ResolvedRun>
  start(type: string, workflowId: string, input: object): Promise<void>
  /** Polls until a blocker fits. @throws Error with the last answer after a minute */
  named(workflowId: string, fits: (blocker: Blocker) => boolean): Promise<Blocker>
  close(): Promise<void>
}

export interface StallWorldOptions {
  /** Placements are answered with a sandbox on this queue; null: the test serves the queue `sandbox`. */
  placeOn: string | null
}

// Once per process, before the first connection. Hides warnings, because failures are intended here.
Runtime.install({ logger: new DefaultLogger('ERROR') })

export async function openStallWorld({ placeOn }: StallWorldOptions): Promise<StallWorld> {
  const connection = await connectToOwnNamespace('stalls')
  const { address, namespace } = connection
  await prepareNamespace({ address, namespace, raiseRetention: false })
  const artifacts = await mkdtemp(join(tmpdir(), 'longhaul-stalls-'))
  const store = createDirectoryStore({ root: artifacts })
  const batches = new Map<string, ArtifactRef>()
  const native = await NativeConnection.connect({ address })
  const workers = await scriptedWorkers({ native, namespace, batches, placeOn })
  const running = Promise.all(workers.map((worker) => worker.run()))
  // Its error is reported when the world closes.
  running.catch(() => undefined)
  const children: ChildProcess[] = []
  const started: string[] = []

  return {
    connection,
    artifacts,
    store,
    batches,
    async startRole(role, queue, env) {
      const child = spawn(process.execPath, [join(root, 'bin/longhaul.mjs'), 'worker', '--role', role], {
        env: {
          ...process.env,
          LONGHAUL_TEMPORAL_ADDRESS: address,
          LONGHAUL_NAMESPACE: namespace,
          LONGHAUL_ARTIFACTS: artifacts,
          LONGHAUL_HOST_ID: `stalls-${process.pid}`,
          // Otherwise its engines would be in the folder of the stack that this process inherited.
          LONGHAUL_ENGINES: join(artifacts, 'engines'),
          ...env,
        },
        stdio: ['ignore', 'ignore', 'inherit'],
      })
      children.push(child)
      await polls(connection, queue, child)
      return child
    },
    async prepareRun(run, change = (recipe) => recipe) {
      const { recipe } = await loadRecipe({ name: 'mini', dirs: [join(root, 'recipes')] })
      // Before it publishes, a trainer worker asks who plays the run.
      const claim = { workflowId: `train/${run}`, firstExecutionRunId: 'first', recipe: 'mini', recipeHash: 'test' }
      await allocateRun(store, { ...claim, run, kind: 'train', date: '2026-01-01' })
      const stored = { schema: 'longhaul.recipe/1', hash: 'test', recipe: change(recipe) }
      return { ...PLAN, run, recipe: await putPart(store, runKeys.recipe(run), stored) }
    },
    async start(type, workflowId, input) {
      await connection.client.workflow.start(type, { workflowId, taskQueue: 'control', args: [input] })
      started.push(workflowId)
    },
    async named(workflowId, fits) {
      const deadline = Date.now() + HANG_MS
      for (;;) {
        const look = await findBlockers({ connection, workflowId })
        const blocker = look.blockers.find(fits)
        if (blocker !== undefined) return blocker
        if (Date.now() > deadline) throw new Error(`Not named: ${JSON.stringify(look)}`)
        await sleep(1_000)
      }
    },
    async close() {
      for (const workflowId of started) {
        await connection.client.workflow
          .getHandle(workflowId)
          .terminate('the test is over')
          .catch(() => undefined)
      }
      for (const child of children) child.kill('SIGKILL')
      for (const worker of workers) worker.shutdown()
      await running.catch(() => undefined)
      await native.close()
      await connection.close()
      await rm(artifacts, { recursive: true, force: true })
    },
  }
}

/** Serves all workflows unchanged; bookkeeping and aggregation answer at once, and a placement returns an absent host. */
async function scriptedWorkers({
  native,
  namespace,
  batches,
  placeOn,
}: StallWorldOptions & {
  native: NativeConnection
  namespace: string
  batches: Map<string, ArtifactRef>
}): Promise<Worker[]> {
  const script = {
    ...scriptedPipeline({ tasks: 0 }),
    closeGate: () => ({ admitted: 1, refused: 0 }),
    // For a rollout that a test starts; the workflows above it plan none.
    readPlanPage: ({ from, count }: { from: number; count: number }) =>
      Array.from(
        { length: Math.min(count, PLANNED_TASKS - from) },
        (_, place) => `task-${String(from + place).padStart(4, '0')}`,
      ),
  }
  const activities = Object.fromEntries(
    Object.entries(script).map(([name, answer]) => [
      name,
      async (input: unknown) => (answer as (input: unknown) => unknown)(input),
    ]),
  )
  const buildBatch = async ({ run }: { run: string }) => {
    const batch = batches.get(run)
    return { ...NOTHING_BUILT, batches: batch === undefined ? [] : [batch] }
  }
  const workflowBundle = await loadWorkflowBundle(process.env['LONGHAUL_BUNDLE'] ?? null)
  const common = { connection: native, namespace }
  return Promise.all([
    Worker.create({ ...common, taskQueue: 'control', workflowBundle, activities }),
    Worker.create({ ...common, taskQueue: 'artifacts', activities: { ...activities, buildBatch } }),
    ...(placeOn === null
      ? []
      : [
          Worker.create({
            ...common,
            taskQueue: 'placement',
            activities: {
              openSandbox: async (input: EpisodeInput & { placement: number }) => sandboxHandle(input, placeOn),
            },
          }),
          Worker.create({ ...common, taskQueue: 'sandbox', activities: { checkImages: activities['checkImages'] } }),
        ]),
  ])
}

const NOTHING_BUILT = {
  trajectories: 0,
  groups: 0,
  groupsKept: 0,
  episodes: 0,
  infra: 0,
  meanReward: 0,
  resolvedRate: 0,
  meanTurns: 0,
}

/** Input of `rejectionFineTune` without a task to play: it continues with its training jobs, then publishes. */
export function publishingInput(plan: ResolvedRun, policy = policyRef(0)): object {
  return { plan, policy, suite: 'none' }
}

async function polls({ client, namespace }: LonghaulConnection, queue: string, child: ChildProcess): Promise<void> {
  const wanted = { namespace, queue, pid: child.pid ?? 0 }
  for (const deadline = Date.now() + HANG_MS; Date.now() < deadline; await sleep(500)) {
    if (await hasPoller(client.connection as Connection, wanted)) return
  }
  throw new Error(`Expected a worker to poll ${queue}`)
}
