import type { GradePredictionsInput, GradePredictionsResult } from '../contracts/workflows.types.ts'
import type { RunHandle } from './run-handle.ts'
import { type StartOptions, startRun } from './start-run.ts'

export interface StartGradingInput
  extends Omit<GradePredictionsInput, 'opened' | 'from' | 'counts' | 'paused'>,
    StartOptions {}

/** Grades anyone's predictions, or the stored patches of a run again; joins the same request under way. */
export function startGrading(input: StartGradingInput): Promise<RunHandle<GradePredictionsResult>> {
  const name = input.regrade === undefined ? 'grade' : `regrade-${input.regrade}`.slice(0, 80)
  return startRun({ type: 'gradePredictions', name, request: input })
}
