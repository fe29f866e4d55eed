import type { ArtifactActivities } from '../contracts/activities.types.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { activity } from '../activities/runtime/activity-runtime.ts'
import type { RecipeReader } from '../activities/runtime/stored-recipe.ts'
import { closeGrading } from '../activities/grading/close-grading.ts'
import type { SuiteReader, TaskReader } from '../activities/runtime/stored-tasks.ts'
import { buildBatch } from '../activities/training/build-batch.ts'
import { planRefill } from '../activities/training/plan-refill.ts'
import { summarizeEvaluation } from '../activities/evaluation/summarize-evaluation.ts'
import { writeGateReport } from '../activities/gate/write-gate-report.ts'
import { writeReport } from '../activities/evaluation/write-report.ts'

export interface ArtifactDependencies {
  store: ArtifactStore
  recipes: RecipeReader
  tasks: TaskReader
  suites: SuiteReader
}

/** What reads many records and writes few. */
export function createArtifactActivities(deps: ArtifactDependencies): ArtifactActivities {
  const { store, recipes, tasks } = deps
  return {
    planRefill: activity(async (input) => planRefill({ store, recipe: await recipes(input.run) }, input)),
    buildBatch: activity(async (input) => buildBatch({ store, recipe: await recipes(input.run) }, input)),
    summarizeEvaluation: activity((input) => summarizeEvaluation({ store, tasks }, input)),
    closeGrading: activity((input) => closeGrading(deps, input)),
    writeGateReport: activity((input) => writeGateReport(store, input)),
    writeReport: activity((input) => writeReport({ store }, input)),
  }
}
