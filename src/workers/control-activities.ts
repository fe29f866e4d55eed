import type { ControlActivities } from '../contracts/activities.types.ts'
import type { AlarmSources } from '../contracts/alarms.types.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { gateKeys } from '../contracts/keys.ts'
import { findAlarms } from '../activities/alarms/find-alarms.ts'
import { sendAlarm } from '../activities/alarms/send-alarm.ts'
import { activity } from '../activities/runtime/activity-runtime.ts'
import type { RecipeReader, SuiteReader, TaskReader } from '../activities/runtime/stored-records.ts'
import { openGrading } from '../activities/grading/open-grading.ts'
import { instanceAt, type PlanReader, recordUngradedPatch } from '../activities/grading/stored-plan.ts'
import { cancelLeft, type ChildRegistry } from '../activities/run/cancel-left.ts'
import { closeGate } from '../activities/gate/close-gate.ts'
import { gateWidth, type SandboxPollers } from '../activities/gate/gate-width.ts'
import { judgePlateau } from '../activities/training/judge-plateau.ts'
import { planIteration, readPlanPage } from '../activities/run/plan-iteration.ts'
import { recallRun } from '../activities/run/recall-run.ts'
import { promoteByRule } from '../activities/training/promote-by-rule.ts'
import { type BaseImporter, keptForRun, resolveForRun } from '../activities/training/policies.ts'
import { type PublishedLoader, type TaskLoader, prepareSuite } from '../activities/evaluation/prepare-suite.ts'
import { recordUngraded } from '../activities/grading/grade-submission.ts'
import { requireDisjoint } from '../activities/evaluation/require-disjoint.ts'
import type { RootRegistry } from '../activities/run/play-alone.ts'
import { type PlaceChecker, type RecipeLoader, resolveRecipe } from '../activities/run/resolve-recipe.ts'
import { codeVersion } from '../platform/code-version.ts'

export interface ControlDependencies {
  store: ArtifactStore
  recipes: RecipeReader
  suites: SuiteReader
  tasks: TaskReader
  plans: PlanReader
  loadRecipe: RecipeLoader
  checkPlaces: PlaceChecker
  roots: RootRegistry
  children: ChildRegistry
  viewerUrl: string | null
  loadTasks: TaskLoader
  published: PublishedLoader
  importBase: BaseImporter
  pollers: SandboxPollers
  alarms: { sources: AlarmSources; env: NodeJS.ProcessEnv }
}

/** Short bookkeeping: names, plans, gates, promotions. */
export function createControlActivities(deps: ControlDependencies): ControlActivities {
  const { store } = deps
  const withRecipe = async (run: string) => ({ ...deps, recipe: await deps.recipes(run) })
  return {
    resolveRecipe: activity(async (input, { owner }) => {
      const resolved = await resolveRecipe({ ...deps, code: codeVersion() }, input, owner.ownerRun)
      const { run, evaluation } = resolved
      const recalled = await recallRun(await withRecipe(run), { run, kind: input.kind, evaluation })
      return { ...resolved, ...(recalled === null ? {} : { recalled }) }
    }),
    prepareSuite: activity(async ({ run, which }) => {
      const suite = await prepareSuite({ ...(await withRecipe(run)), run }, which)
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
    keptPolicies: activity(async ({ run }) => keptForRun(await withRecipe(run), run)),
    promote: activity(async (input) => promoteByRule(await withRecipe(input.run), input)),
    recordUngraded: activity((input) => recordUngraded(store, input)),
    cancelLeft: activity((input, { signal }) => cancelLeft(deps.children, input, signal)),
    openGrading: activity((input, { owner }) => openGrading(deps, input, owner.ownerRun)),
    findAlarms: activity((input) => findAlarms({ store, viewerUrl: deps.viewerUrl, ...deps.alarms }, input)),
    sendAlarm: activity((input, { signal }) => sendAlarm({ store, env: deps.alarms.env }, input, signal)),
    recordUngradedPatch: activity(async ({ run, index, failure }) =>
      recordUngradedPatch(store, run, instanceAt(await deps.plans(run), index), failure),
    ),
  }
}
