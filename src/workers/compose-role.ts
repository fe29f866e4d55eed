import type { NativeConnection, WorkerOptions } from '@temporalio/worker'
import { assertNever } from '../contracts/errors.ts'
import { composeControl } from './compose-control.ts'
import { composeSandbox } from './compose-sandbox.ts'
import { composeTrainer } from './compose-trainer.ts'
import { type Interposers, connectStore, requireNamespaceId } from './connect.ts'
import type { Role } from './run-worker.ts'
import type { WorkerEnvironment } from './worker-environment.ts'
import { createRootRegistry, describeOwner } from './workflow-owners.ts'
import {
  createRecipeReader,
  type RecipeReader,
  createSuiteReader,
  createTaskReader,
  type SuiteReader,
  type TaskReader,
} from '../activities/runtime/stored-records.ts'
import { QUEUES } from '../contracts/workflow-ids.ts'
import type { ArtifactActivities } from '../contracts/activities.types.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import type { Coordinates } from '../contracts/episodes.types.ts'
import type { Recipe } from '../contracts/recipe.types.ts'
import { activity } from '../activities/runtime/activity-runtime.ts'
import { closeGrading } from '../activities/grading/close-grading.ts'
import { buildBatch } from '../activities/training/build-batch.ts'
import { planRefill } from '../activities/run/plan-iteration.ts'
import { requireWholeGroups } from '../activities/run/require-whole-groups.ts'
import { readEvaluation } from '../activities/evaluation/read-evaluation.ts'
import { recordNight } from '../activities/evaluation/record-night.ts'
import { summarizeEvaluation } from '../activities/evaluation/derive-evaluation.ts'
import { writeGateReport } from '../activities/gate/close-gate.ts'
import { writeReport } from '../activities/evaluation/write-report.ts'
import { createTracking } from '../activities/trackers/send-metrics.ts'

/** The workers of one role, and how to release their resources. */
export interface Composed {
  workers: Omit<WorkerOptions, 'connection'>[]
  /** Rejects with the reason why the process must end. */
  broken?: Promise<never>
  /** Called when the process is told to stop, or one of its workers has ended. */
  beginStop?(): void
  dispose(): Promise<void>
}

export async function composeRole(
  role: Role,
  environment: WorkerEnvironment,
  connection: NativeConnection,
  between: Interposers,
): Promise<Composed> {
  switch (role) {
    case 'control':
      return composeControl(environment, connection, between)
    case 'sandbox':
      return composeSandbox(environment, connection, between)
    case 'trainer':
      return composeTrainer(environment, between, await runOwners(connection, environment.temporal))
    case 'artifacts':
      return composeArtifacts(environment, between)
    default:
      return assertNever(role)
  }
}

async function runOwners(connection: NativeConnection, temporal: WorkerEnvironment['temporal']) {
  const { namespace } = temporal
  return {
    namespaceId: await requireNamespaceId(connection, temporal),
    stateOf: (workflowId: string) => describeOwner(connection, { namespace, workflowId }),
    roots: createRootRegistry(connection, namespace),
  }
}

/** Aggregation runs in its own process, so that it never blocks the event loop that serves workflow tasks. */
async function composeArtifacts(environment: WorkerEnvironment, between: Interposers): Promise<Composed> {
  const store = await connectStore(environment, between)
  const activities = createArtifactActivities({
    store,
    recipes: createRecipeReader(store),
    tasks: createTaskReader(store),
    suites: createSuiteReader(store),
  })
  return {
    workers: [{ taskQueue: QUEUES.artifacts, maxConcurrentActivityTaskExecutions: 4, activities }],
    dispose: async () => {},
  }
}

interface ArtifactDependencies {
  store: ArtifactStore
  recipes: RecipeReader
  tasks: TaskReader
  suites: SuiteReader
}

/** Activities that read many records and write few. */
function createArtifactActivities(deps: ArtifactDependencies): ArtifactActivities {
  const { store, recipes, tasks } = deps
  const track = createTracking(deps)
  /** The sources of what is derived from an iteration whose groups have ended. */
  const playedIn = async (
    place: Coordinates & { round?: number },
  ): Promise<{ store: ArtifactStore; recipe: Recipe }> => {
    const recipe = await recipes(place.run)
    await requireWholeGroups({ store, recipe }, place)
    return { store, recipe }
  }
  return {
    planRefill: activity(async (input) => planRefill(await playedIn(input), input)),
    buildBatch: activity(async (input) => buildBatch(await playedIn(input), input)),
    summarizeEvaluation: activity(async (input, { signal }) => {
      await playedIn({ ...input, iteration: 0 })
      const summary = await summarizeEvaluation({ store, tasks }, input)
      await track(input.run, signal)
      return summary
    }),
    readEvaluation: activity((input) => readEvaluation(store, input)),
    recordNight: activity((input) => recordNight(store, input)),
    closeGrading: activity((input) => closeGrading(deps, input)),
    writeGateReport: activity((input) => writeGateReport(store, input)),
    writeReport: activity(async (input, { signal }) => {
      const report = await writeReport({ store }, input)
      await track(input.run, signal)
      return report
    }),
  }
}
