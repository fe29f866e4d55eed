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
import { withoutForeignSources, WORKFLOW_INTERCEPTORS } from '../platform/bundle-sources.ts'
import { ENCODES_FAILURES, failureConverterOf } from '../platform/data-converter.ts'
import { LonghaulError } from '../contracts/errors.ts'
import { TRACE_SWITCH, traceSwitch } from '../contracts/trace-context.ts'
import { readTraceSettings, type TraceSettings } from '../platform/traces.ts'
import type { Composed } from './compose-role.ts'
import { createChildRegistry, createRootRegistry } from './workflow-owners.ts'
import { connectStore, type Interposers } from './connect.ts'
import type { WorkerEnvironment } from './worker-environment.ts'
import { fileURLToPath } from 'node:url'

/** Composes the worker for all workflows and their short bookkeeping. */
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
    roots: createRootRegistry(connection, environment.temporal.namespace),
    children: createChildRegistry(connection, environment.temporal.namespace),
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
        // Counts entries and not bytes: an episode takes about 30 KB, so this is far below a small heap.
        maxCachedWorkflows: 1_000,
      },
    ],
    dispose: async () => {},
  }
}

/** Workflows without a versioning behaviour of their own move to the newest build, so a build has no work left once its open groups
 *  have ended. */
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

/** A model directory is named relative to its recipe. A recipe given as text has no location, so every recipe folder is tried. */
function findModel(base: string, recipeDirs: readonly string[]): string {
  return findBeside(base, recipeDirs) ?? resolve(recipeDirs[0] ?? '.', base)
}

/** Returns null if no recipe folder contains it. */
function findBeside(path: string, recipeDirs: readonly string[]): string | null {
  if (isAbsolute(path)) return path
  return recipeDirs.map((dir) => resolve(dir, path)).find((candidate) => existsSync(candidate)) ?? null
}

type Connection = Pick<NativeConnection, 'workflowService' | 'withDeadline'>
type QueueType = NonNullable<Parameters<Connection['workflowService']['describeTaskQueue']>[0]['taskQueueType']>

/** `temporal.api.enums.v1.TaskQueueType`, from a package that the worker does not depend on. */
const ACTIVITY = 2 as unknown as QueueType

const CALL_TIMEOUT_MS = 5_000

/** Lists the workers that poll for sandbox work, which the server remembers for some minutes. Returns null if the server does not
 *  answer. */
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

/** Loads the prebuilt bundle if the package or the stack has one; during development the bundle is built on the spot. */
export async function loadWorkflowBundle(codePath: string | null): Promise<WorkflowBundleOption> {
  if (codePath !== null) return { codePath: withConverter(codePath) }
  const packed = fileURLToPath(new URL('../workflow-bundle.js', import.meta.url))
  // The package's bundle does not encrypt failures.
  if (existsSync(packed) && failureConverterOf().failureConverterPath === undefined) return { codePath: packed }
  return buildWorkflowBundle()
}

/** Makes runs of schedules and the Temporal UI, for which no client began a trace, begin their own. A bundle of other code is not
 *  changed. */
export function withTraces(bundle: WorkflowBundleOption, settings: TraceSettings | null): WorkflowBundleOption {
  if (settings === null) return bundle
  const code = 'code' in bundle ? bundle.code : readFileSync(bundle.codePath, 'utf8')
  return { code: code.replace(TRACE_SWITCH, traceSwitch(settings.ratio)) }
}

/** @throws LonghaulError `Config.Invalid` if payloads are encrypted and the bundle lacks the failure converter */
function withConverter(codePath: string): string {
  if (failureConverterOf().failureConverterPath === undefined) return codePath
  if (readFileSync(codePath, 'utf8').includes(ENCODES_FAILURES)) return codePath
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `The workflow bundle ${codePath} (LONGHAUL_BUNDLE) was made without encryption, so messages of failures would be readable: make it with LONGHAUL_CODEC_KEYS set (longhaul up does), or unset LONGHAUL_BUNDLE`,
  })
}

/** Works with the sources (`.ts`) and with the compiled package (`.js`). */
export async function buildWorkflowBundle(): Promise<{ code: string }> {
  const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'
  const workflowsPath = fileURLToPath(new URL(`../workflows/index.${extension}`, import.meta.url))
  const interceptors = WORKFLOW_INTERCEPTORS.map((name) =>
    fileURLToPath(new URL(`../workflows/${name}.${extension}`, import.meta.url)),
  )
  const { code } = await bundleWorkflowCode({
    workflowsPath,
    workflowInterceptorModules: interceptors,
    ...failureConverterOf(),
  })
  return { code: withoutForeignSources(code) }
}
