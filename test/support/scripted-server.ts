/** A real Temporal server with the product's workflows, whose activities are scripted, for what people do by hand. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { type NativeConnection, DefaultLogger, Runtime, Worker } from '@temporalio/worker'
import { activity } from '../../src/activities/runtime/activity-runtime.ts'
import { cancelLeft } from '../../src/activities/run/cancel-left.ts'
import { resolveRecipe } from '../../src/activities/run/resolve-recipe.ts'
import { loadRecipe } from '../../src/adapters/recipes/load-recipe.ts'
import type { ControlActivities, ResolveRecipeInput } from '../../src/contracts/activities.types.ts'
import type { ArtifactStore } from '../../src/contracts/artifacts.types.ts'
import { QUEUES } from '../../src/contracts/workflow-ids.ts'
import { createChildRegistry, createRootRegistry } from '../../src/workers/workflow-owners.ts'
import { useOwnStore } from './command-line.ts'
import { type LocalServer, startLocalServer } from './local-server.ts'
import { HOST_QUEUE, PLAN, scriptedPipeline } from './scripted-pipeline.ts'
import { buildWorkflowBundle } from './workflow-bundle.ts'

const run = promisify(execFile)
const dirs = [fileURLToPath(new URL('../../recipes', import.meta.url))]

type Activities = Record<string, (input: never) => Promise<unknown>>

export interface ScriptedServer extends AsyncDisposable {
  server: LocalServer
  store: ArtifactStore
  /** Runs a command of the Temporal CLI. */
  temporal(...args: string[]): Promise<void>
}

/** @param scripts overrides the answers of a pipeline in which everything works, and its own way to name runs */
export async function startScriptedServer(
  scripts: (on: { store: ArtifactStore; connection: NativeConnection }) => Activities,
): Promise<ScriptedServer> {
  Runtime.install({ logger: new DefaultLogger('ERROR') })
  const { store, close } = await useOwnStore()
  const server = await startLocalServer()
  const { nativeConnection: connection, address } = server.environment
  const workflowBundle = await buildWorkflowBundle()
  const activities = {
    ...plainPipeline(),
    ...namesRuns(store, connection),
    ...endsChildren(connection),
    ...scripts({ store, connection }),
  }
  const queues = [...Object.values(QUEUES).filter((queue) => typeof queue === 'string'), HOST_QUEUE]
  const workers = await Promise.all(
    queues.map(async (taskQueue) => {
      const bundle = taskQueue === QUEUES.control ? { workflowBundle } : {}
      const worker = await Worker.create({ connection, taskQueue, activities, ...bundle })
      return { worker, done: worker.run() }
    }),
  )
  return {
    server,
    store,
    async temporal(...args) {
      await run(server.path, [...args, '--address', address])
    },
    async [Symbol.asyncDispose]() {
      for (const { worker } of workers) worker.shutdown()
      await Promise.all(workers.map(({ done }) => done))
      await server[Symbol.asyncDispose]()
      await close()
    },
  }
}

function plainPipeline(): Activities {
  const table = Object.entries(scriptedPipeline({ steps: 1 })) as [string, (input: never, call: never) => unknown][]
  return Object.fromEntries(
    table.map(([name, script]) => [name, async (input: never) => script(input, undefined as never)]),
  )
}

/** The product's own first activity, with a recipe whose hash is its name. */
function namesRuns(store: ArtifactStore, connection: NativeConnection): Activities {
  const roots = createRootRegistry(connection, 'default')
  return {
    resolveRecipe: activity(async (input: ResolveRecipeInput, { owner }) => {
      const { recipe } = await loadRecipe({ name: input.recipe, dirs })
      const resolved = await resolveRecipe(
        { store, loadRecipe: async () => ({ recipe, hash: input.recipe }), checkPlaces: async () => undefined, roots },
        input,
        owner.ownerRun,
      )
      return { ...PLAN, run: resolved.run, ...(input.kind === 'eval' ? { evaluation: 'demo' } : {}) }
    }) as never,
  }
}

/** The product's own search for children that a reset has left. */
function endsChildren(connection: NativeConnection): Activities {
  const children = createChildRegistry(connection, 'default')
  type Input = Parameters<ControlActivities['cancelLeft']>[0]
  return { cancelLeft: activity((input: Input, { signal }) => cancelLeft(children, input, signal)) as never }
}
