import type { TrainAgentInput, TrainAgentResult } from '../contracts/workflows.types.ts'
import type { RunHandle } from './run-handle.ts'
import { type StartOptions, startRun } from './start-run.ts'

export interface StartTrainingInput extends TrainAgentInput, StartOptions {}

/** Starts the whole job (gate, base, RFT, DAPO, evaluations, promotion, report), or joins the same request under way. */
export function startTraining(input: StartTrainingInput = {}): Promise<RunHandle<TrainAgentResult>> {
  const recipe = input.recipe ?? 'demo'
  return startRun({ type: 'trainAgent', name: recipe, request: { ...input, recipe } })
}
