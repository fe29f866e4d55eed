import { Context } from '@temporalio/activity'
import type { SandboxActivities } from '../contracts/activities.types.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import type { SandboxHost } from '../contracts/sandbox.types.ts'
import { activity } from '../activities/runtime/activity-runtime.ts'
import type { HostDoor } from '../activities/runtime/host-door.ts'
import {
  createIterationReader,
  type RecipeReader,
  type SuiteReader,
  type TaskReader,
} from '../activities/runtime/stored-records.ts'
import { checkImages, type ImageFinder } from '../activities/gate/check-images.ts'
import { isLonghaulError, LonghaulError } from '../contracts/errors.ts'
import { gradePatch } from '../activities/grading/grade-patch.ts'
import type { PlanReader } from '../activities/grading/stored-plan.ts'
import { type GateDependencies, gateTask, mayExclude, recordUngated } from '../activities/gate/gate-task.ts'
import { gradeSubmission } from '../activities/grading/grade-submission.ts'
import { gradingFailed, isHostFailure } from '../activities/grading/grade-to-verdict.ts'
import {
  requireOpenIteration,
  requireOwnPlace,
  requireSettled,
  recordedEnding,
  type EnsureImage,
  openSandbox,
} from '../activities/episode/open-sandbox.ts'
import type { VerifyImage } from '../activities/gate/verify-image.ts'

export interface SandboxDependencies {
  store: ArtifactStore
  sandbox: SandboxHost
  recipes: RecipeReader
  tasks: TaskReader
  suites: SuiteReader
  plans: PlanReader
  hostId: string
  leaseMs: number
  ensureImage: EnsureImage
  verifyImage: VerifyImage
  finder: ImageFinder
  door: Pick<HostDoor, 'requireOpen'>
}

/** Activities that any sandbox host can serve. */
export function createSandboxActivities(deps: SandboxDependencies): SandboxActivities {
  const readPlan = createIterationReader(deps.store)
  return {
    checkImages: activity(async (input, { signal }) => {
      try {
        return await checkImages({ ...deps, recipe: await deps.recipes(input.run) }, input.suites, signal)
      } catch (error) {
        if (signal.aborted || isLastAttempt() || !isLonghaulError(error) || error.code !== 'Sandbox.ImageMissing')
          throw error
        // Another host may have the image, as for a gate.
        throw new LonghaulError({
          code: 'Sandbox.PullFailed',
          message: error.message,
          details: error.details,
          cause: error,
        })
      }
    }),
    openSandbox: activity(async (input, { owner, signal }) => {
      const ending = await recordedEnding(deps.store, input)
      if (ending !== null) return ending
      await requireOpenIteration(deps.store, input)
      await requireOwnPlace({ store: deps.store, readPlan }, input)
      deps.door.requireOpen()
      return openSandbox({ ...deps, recipe: await deps.recipes(input.run) }, { ...input, ...owner }, signal)
    }),
    gradeSubmission: activity(async (input, { owner, signal, attempt }) => {
      await requireSettled(deps.store, input)
      return gradeSubmission(
        { ...deps, recipe: await deps.recipes(input.run) },
        { ...input, ...owner, attempt, isLastAttempt: isLastAttempt() },
        signal,
      )
    }),
    gradePatch: activity(async (input, { owner, signal, attempt }) =>
      gradePatch(
        { ...deps, recipe: await deps.recipes(input.run) },
        { ...input, ...owner, attempt, isLastAttempt: isLastAttempt() },
        signal,
      ),
    ),
    gateTask: activity(async (input, { owner, signal, attempt }) => {
      const gate: GateDependencies = {
        ...deps,
        recipe: await deps.recipes(input.run),
        ...owner,
        now: Date.now,
      }
      try {
        return await gateTask(gate, input, signal)
      } catch (error) {
        if (signal.aborted) throw error
        // Another host may succeed. After the last attempt the cause itself is returned.
        if (!isLastAttempt() && isHostFailure(error)) throw gradingFailed(error, { host: deps.hostId, attempt })
        if (mayExclude(gate.recipe, error)) return recordUngated(gate, input, error)
        throw error
      }
    }),
  }
}

function isLastAttempt(): boolean {
  const { attempt, retryPolicy } = Context.current().info
  // Both 0 and undefined mean unlimited.
  return attempt >= (retryPolicy?.maximumAttempts || Number.POSITIVE_INFINITY)
}
