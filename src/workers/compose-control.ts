import { existsSync, readFileSync } from 'node:fs'
import { isAbsolute, resolve } from 'node:path'
import {
  type NativeConnection,
  bundleWorkflowCode,
  type WorkerOptions,
  type WorkflowBundleOption,
} from '@temporalio/worker'
import { alarmSources } from './alarm-sources.ts'
import { createControlActivities } from './control-activities.ts'
import { createRecipeReader, createSuiteReader, createTaskReader } from '../activities/runtime/stored-records.ts'
import { createPlanReader } from '../activities/grading/stored-plan.ts'
import { loadPublished, loadTasksAndFile } from '../adapters/datasets/load-tasks.ts'
import { checkPlaces } from '../adapters/recipes/check-places.ts'
import { loadRecipe } from '../adapters/recipes/load-recipe.ts'
import { pushedRecipes } from '../adapters/recipes/pushed-recipes.ts'
import { importBasePolicy } from '../adapters/trainer-job/job/policy-directory.ts'
import { DEPLOYMENT, QUEUES } from '../contracts/workflow-ids.ts'
import { withoutForeignSources } from '../platform/bundle-sources.ts'
import { ENCODES_FAILURES, failureConverterOf } from '../platform/data-converter.ts'
import { LonghaulError } from '../contracts/errors.ts'
import { TRACE_SWITCH, traceSwitch } from '../contracts/trace-context.ts'
import { readTraceSettings, type TraceSettings } from '../platform/traces.ts'
import type { Composed } from './compose-role.ts'
import { connectStore, type Interposers } from './connect.ts'
import type { WorkerEnvironment } from './worker-environment.ts'
import { fileURLToPath } from 'node:url'

/** All workflows and their short bookkeeping. */
export async function composeControl(
  environment: WorkerEnvironment,
  connection: NativeConnection,
  between: Interposers,
): Promise<Composed> {
  const store = await connectStore(environment, between)
  const places = {
    hubUrl: environment.hubUrl,
    findFile: (path: string) => findBeside(path, environment.recipeDirs) ?? path,
  }
  const activities = createControlActivities({
    store,
    recipes: createRecipeReader(store),
    suites: createSuiteReader(store),
    tasks: createTaskReader(store),
    plans: createPlanReader(store),
    loadRecipe: (input) => loadRecipe({ ...input, dirs: environment.recipeDirs, pushed: pushedRecipes(store) }),
    viewerUrl: environment.viewerUrl,
    checkPlaces: (recipe, kind) =>
      checkPlaces(recipe, kind, {
        findFile: places.findFile,
        findModel: (base) => findModel(base, environment.recipeDirs),
      }),
    loadTasks: (source, filters) => loadTasksAndFile(source, filters, places),
    published: {
      identify: async (source, filters) => {
        const { identityOfImport } = await import('../adapters/datasets/published-suite.ts')
        return identityOfImport(source, filters, places)
      },
      load: (source, filters) => loadPublished(source, filters, places),
      newestSplit: async (source) => {
        const { findNewestSplit } = await import('../adapters/datasets/newest-split.ts')
        return findNewestSplit({ ...source, hubUrl: places.hubUrl })
      },
    },
    alarms: { sources: alarmSources(environment.temporal), env: process.env },
    pollers: () => sandboxPollers(connection, environment.temporal.namespace),
    importBase: ({ base, rope }) =>
      importBasePolicy({ store, directory: findModel(base, environment.recipeDirs), rope }),
  })
  return {
    workers: [
      {
        taskQueue: QUEUES.control,
        workflowBundle: withTraces(await loadWorkflowBundle(environment.bundle), readTraceSettings()),
        activities,
        ...deploymentOf(environment.buildId),
        maxConcurrentActivityTaskExecutions: 16,
        // Entries, not bytes: an episode holds about 30 KB, so this is far below a small heap.
        maxCachedWorkflows: 1_000,
      },
    ],
    dispose: async () => {},
  }
}

/** Workflows that say nothing else go on in the newest build, so a build has no work left once its open groups have ended. */
function deploymentOf(buildId: string | null): Pick<WorkerOptions, 'workerDeploymentOptions'> {
  if (buildId === null) return {}
  return {
    workerDeploymentOptions: {
      useWorkerVersioning: true,
      version: { deploymentName: DEPLOYMENT, buildId },
      defaultVersioningBehavior: 'AUTO_UPGRADE',
    },
  }
}

/** A model directory is named relative to its recipe; a recipe that came as text has no place, so each folder is tried. */
function findModel(base: string, recipeDirs: readonly string[]): string {
  return findBeside(base, recipeDirs) ?? resolve(recipeDirs[0] ?? '.', base)
}

/** Null where no folder of recipes has it. */
function findBeside(path: string, recipeDirs: readonly string[]): string | null {
  if (isAbsolute(path)) return path
  return recipeDirs.map((dir) => resolve(dir, path)).find((candidate) => existsSync(candidate)) ?? null
}

type Connection = Pick<NativeConnection, 'workflowService' | 'withDeadline'>
type QueueType = NonNullable<Parameters<Connection['workflowService']['describeTaskQueue']>[0]['taskQueueType']>

/** `temporal.api.enums.v1.TaskQueueType`, whose package is none of the worker's. */
const ACTIVITY = 2 as unknown as QueueType

const CALL_TIMEOUT_MS = 5_000

/** Who polls for work on sandboxes, as the server remembers it for some minutes. Null where it does not answer. */
async function sandboxPollers(connection: Connection, namespace: string): Promise<string[] | null> {
  try {
    const { pollers } = await connection.withDeadline(Date.now() + CALL_TIMEOUT_MS, () =>
      connection.workflowService.describeTaskQueue({
        namespace,
        taskQueue: { name: QUEUES.sandbox },
        taskQueueType: ACTIVITY,
      }),
    )
    return (pollers ?? []).flatMap(({ identity }) => (identity ? [identity] : []))
  } catch {
    return null
  }
}

/** Prebuilt where the package is installed or the stack has built it; made on the spot while developing. */
export async function loadWorkflowBundle(codePath: string | null): Promise<WorkflowBundleOption> {
  if (codePath !== null) return { codePath: withConverter(codePath) }
  const packed = fileURLToPath(new URL('../workflow-bundle.js', import.meta.url))
  // The package's bundle writes failures in the clear.
  if (existsSync(packed) && failureConverterOf().failureConverterPath === undefined) return { codePath: packed }
  return buildWorkflowBundle()
}

/** Runs that no client has begun a trace for, of schedules and the Temporal UI, begin their own. A bundle of other code stays as it is. */
export function withTraces(bundle: WorkflowBundleOption, settings: TraceSettings | null): WorkflowBundleOption {
  if (settings === null) return bundle
  const code = 'code' in bundle ? bundle.code : readFileSync(bundle.codePath, 'utf8')
  return { code: code.replace(TRACE_SWITCH, traceSwitch(settings.ratio)) }
}

/** @throws LonghaulError `Config.Invalid` for a bundle without the failure converter where payloads are encrypted */
function withConverter(codePath: string): string {
  if (failureConverterOf().failureConverterPath === undefined) return codePath
  if (readFileSync(codePath, 'utf8').includes(ENCODES_FAILURES)) return codePath
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `The workflow bundle ${codePath} (LONGHAUL_BUNDLE) was made without encryption, so messages of failures would be readable: make it with LONGHAUL_CODEC_KEYS set (longhaul up does), or unset LONGHAUL_BUNDLE`,
  })
}

/** Works on the sources (`.ts`) and on the compiled package (`.js`) alike. */
export async function buildWorkflowBundle(): Promise<{ code: string }> {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
  const workflowsPath = fileURLToPath(new URL(`../workflows/index.${extension}`, import.meta.url))
  const traces = fileURLToPath(new URL(`../workflows/trace-interceptors.${extension}`, import.meta.url))
  const { code } = await bundleWorkflowCode({
    workflowsPath,
    workflowInterceptorModules: [traces],
    ...failureConverterOf(),
  })
  return { code: withoutForeignSources(code) }
}
