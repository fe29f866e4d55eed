import type { EvaluateInput, EvaluateResult } from '../contracts/workflows.types.ts'
import type { RunHandle } from './run-handle.ts'
import { type StartOptions, startRun } from './start-run.ts'

export interface StartEvaluationInput extends Omit<EvaluateInput, 'child'>, StartOptions {}

/** Evaluates a policy on the recipe's held-out suite, or joins the same request under way. */
export function startEvaluation(input: StartEvaluationInput = {}): Promise<RunHandle<EvaluateResult>> {
  const recipe = input.recipe ?? 'nightly'
  return startRun({ type: 'evaluate', name: recipe, request: { ...input, recipe } })
}
