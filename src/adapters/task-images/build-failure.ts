import { LonghaulError } from '../../contracts/errors.ts'
import type { BuildStage } from '../../contracts/task-images.types.ts'

interface BuildFailureInput {
  stage: BuildStage
  /** What was expected and what came, and how to fix it. */
  message: string
  details?: Record<string, string | number>
  cause?: unknown
}

/** The one error of a build; its stage is what a user looks for first. */
export function buildFailure({ stage, message, details = {}, cause }: BuildFailureInput): LonghaulError {
  return new LonghaulError({ code: 'Image.BuildFailed', message, details: { stage, ...details }, cause })
}
