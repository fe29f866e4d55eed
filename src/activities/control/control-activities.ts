import type { ControlActivities } from '../../contracts/activities.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { gateKeys } from '../../contracts/keys.ts'
import { activity } from '../activity-runtime.ts'
import type { RecipeReader } from '../stored-recipe.ts'
import { openGrading } from '../grading/open-grading.ts'
import { instanceAt, type PlanReader, recordUngraded as recordUngradedPatch } from '../grading/stored-plan.ts'
import type { SuiteReader, TaskReader } from '../stored-tasks.ts'
import { closeGate } from './close-gate.ts'
import { gateWidth, type SandboxPollers } from './gate-width.ts'
import { judgePlateau } from './judge-plateau.ts'
import { planIteration, readPlanPage } from './plan-iteration.ts'
import { recallRun } from './recall-run.ts'
import { type BaseImporter, promote, resolveForRun } from './policies.ts'
import type { PublishedLoader } from './prepare-published.ts'
import { prepareSuite, type TaskLoader } from './prepare-suite.ts'
import { recordUngraded } from './record-ungraded.ts'
import { requireDisjoint } from './require-disjoint.ts'
import { type RecipeLoader, resolveRecipe } from './resolve-recipe.ts'

export interface ControlDependencies {
  store: ArtifactStore
  recipes: RecipeReader
  suites: SuiteReader
  tasks: TaskReader
  plans: PlanReader
  loadRecipe: RecipeLoader
  loadTasks: TaskLoader
  published: PublishedLoader
  importBase: BaseImporter
  pollers: SandboxPollers
}

/** Short bookkeeping: names, plans, gates, promotions. */
export function createControlActivities(deps: ControlDependencies): ControlActivities {
  const { store } = deps
  const withRecipe = async (run: string) => ({ ...deps, recipe: await deps.recipes(run) })
  return {
    resolveRecipe: activity(async (input) => {
      const plan = await resolveRecipe(deps, input)
      const recalled = await recallRun(await withRecipe(plan.run), { run: plan.run, kind: input.kind })
      return { ...plan, ...(recalled === null ? {} : { recalled }) }
    }),
    prepareSuite: activity(async ({ run, which }) => {
      const suite = await prepareSuite(await withRecipe(run), which)
      const gated = await store.readRecord(gateKeys.gated(run, suite.suite))
      return { ...suite, ...(gated === null ? {} : { gated: true as const }) }
    }),
    requireDisjoint: activity(async (input) => requireDisjoint(await withRecipe(input.run), input)),
    gateWidth: activity(async ({ run }) => gateWidth(await withRecipe(run))),
    closeGate: activity(async (input) => closeGate(await withRecipe(input.run), input)),
    planIteration: activity(async (input) => planIteration(await withRecipe(input.run), input)),
    readPlanPage: activity((input) => readPlanPage(store, input)),
    judgePlateau: activity(async (input) => judgePlateau(await withRecipe(input.run), input)),
    resolvePolicy: activity(async ({ run, policy }) => resolveForRun(await withRecipe(run), { run, policy })),
    promote: activity((input) => promote(store, input)),
    recordUngraded: activity((input) => recordUngraded(store, input)),
    openGrading: activity((input) => openGrading(deps, input)),
    recordUngradedPatch: activity(async ({ run, index, failure }) =>
      recordUngradedPatch(store, run, instanceAt(await deps.plans(run), index), failure),
    ),
  }
}
