import { Context } from '@temporalio/activity'
import type { SandboxActivities } from '../../contracts/activities.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { SandboxHost } from '../../contracts/sandbox.types.ts'
import { activity } from '../activity-runtime.ts'
import type { RecipeReader } from '../stored-recipe.ts'
import type { SuiteReader, TaskReader } from '../stored-tasks.ts'
import { gateTask } from './gate-task.ts'
import { gradeSubmission } from './grade-submission.ts'
import { type EnsureImage, openSandbox } from './open-sandbox.ts'

export interface SandboxDependencies {
  store: ArtifactStore
  sandbox: SandboxHost
  recipes: RecipeReader
  tasks: TaskReader
  suites: SuiteReader
  hostId: string
  leaseMs: number
  ensureImage: EnsureImage
}

/** Activities that any sandbox host can serve. */
export function createSandboxActivities(deps: SandboxDependencies): SandboxActivities {
  return {
    openSandbox: activity(async (input, { signal }) =>
      openSandbox({ ...deps, recipe: await deps.recipes(input.run) }, { ...input, ...ownerOf() }, signal),
    ),
    gradeSubmission: activity(async (input, { signal }) =>
      gradeSubmission({ ...deps, recipe: await deps.recipes(input.run) }, { ...input, ...ownerOf() }, signal),
    ),
    gateTask: activity(async (input, { signal }) =>
      gateTask({ ...deps, recipe: await deps.recipes(input.run), ...ownerOf() }, input, signal),
    ),
  }
}

/** The workflow that a container is opened for: while this execution of it runs, somebody will close the container. */
function ownerOf(): { owner: string; ownerRun: string } {
  const execution = Context.current().info.workflowExecution
  return { owner: execution?.workflowId ?? '', ownerRun: execution?.runId ?? '' }
}
