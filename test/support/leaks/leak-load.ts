/** Episodes that keep a sandbox worker busy with opening, turns, capture, closing and grading. */
import { fileURLToPath } from 'node:url'
import { prepareSuite } from '../../../src/activities/evaluation/prepare-suite.ts'
import { readOrThrow } from '../../../src/activities/runtime/stored-records.ts'
import { loadTasksAndFile } from '../../../src/adapters/datasets/load-tasks.ts'
import { loadRecipe } from '../../../src/adapters/recipes/load-recipe.ts'
import { runKeys, suiteKeys } from '../../../src/contracts/keys.ts'
import type { SuiteManifest } from '../../../src/contracts/tasks.types.ts'
import { QUEUES } from '../../../src/contracts/workflow-ids.ts'
import type { EpisodeInput, GateTasksInput } from '../../../src/contracts/workflows.types.ts'
import type { LeakWorld } from './leak-stack.ts'
import type { StoredRecipe } from '../../../src/contracts/run-records.types.ts'
import { putPart } from '../record-examples.ts'
import { PLAN } from '../scripted-pipeline.ts'

const RECIPES = fileURLToPath(new URL('../../../recipes', import.meta.url))
const RUN = 'leaks'
const STAGE = 'eval-leaks'

export interface LeakLoad {
  /** Starts one more episode and returns its workflow id. */
  start(): Promise<string>
  started(): number
  /** Starts a gate that grades endlessly, so that kills also hit graders: an episode seldom lives until its grading. */
  startGate(): Promise<void>
  /** Ids of open workflows, including gates. */
  open(): Promise<string[]>
}

/** Stores the results of `resolveRecipe` and `prepareSuite`, so that episodes can be started on their own. */
export async function createLeakLoad(world: LeakWorld): Promise<LeakLoad> {
  const { store, connection, policyUrl } = world
  const { workflow } = connection.client
  const { recipe, hash } = await loadRecipe({
    name: 'mini',
    dirs: [RECIPES],
    // One token per byte makes prompts longer than the demo's.
    overrides: {
      policyServer: { url: policyUrl },
      evaluate: { context: 60_000, tasks: 4 },
      data: { gate: { repeats: 1_000 } },
    },
  })
  const stored: StoredRecipe = { schema: 'longhaul.recipe/1', hash, recipe }
  const recipeRef = await putPart(store, runKeys.recipe(RUN), stored)
  const { suite } = await prepareSuite({ store, loadTasks: loadTasksAndFile, recipe }, 'heldOut')
  const { taskIds } = await readOrThrow<SuiteManifest>(store, suiteKeys.manifest(suite))
  // Episodes that no plan names are refused.
  await putPart(store, runKeys.plan(RUN, STAGE, 1), {
    run: RUN,
    stage: STAGE,
    iteration: 1,
    groupSize: 100_000,
    taskIds,
  })
  let count = 0
  let gates = 0
  return {
    async start() {
      const index = count++
      const taskId = taskIds[index % taskIds.length] ?? ''
      const common = { run: RUN, stage: STAGE, iteration: 1, policy: 'v000000-00000000' }
      const input: EpisodeInput = { ...common, suite, taskId, index }
      const workflowId = `${RUN}/ep/${index}`
      await workflow.start('episode', { workflowId, taskQueue: QUEUES.control, args: [input] })
      return workflowId
    },
    async startGate() {
      const input: GateTasksInput = {
        plan: { ...PLAN, run: RUN, recipe: recipeRef, gateRepeats: 1_000 },
        suite: { suite, name: 'leaks', tasks: taskIds.length },
      }
      const options = { workflowId: `${RUN}/gate/${gates++}`, taskQueue: QUEUES.control, args: [input] }
      await workflow.start('gateTasks', options)
    },
    started: () => count,
    async open() {
      const ids: string[] = []
      const query = `WorkflowType IN ('episode', 'gateTasks') AND ExecutionStatus = 'Running'`
      for await (const { workflowId } of workflow.list({ query })) ids.push(workflowId)
      return ids
    },
  }
}
