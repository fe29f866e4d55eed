import type { GateSuiteInput, GateSuiteResult } from '../contracts/workflows.types.ts'
import type { RunHandle } from './run-handle.ts'
import { type StartOptions, startRun } from './start-run.ts'

export interface StartGateInput extends Omit<GateSuiteInput, 'page'>, StartOptions {}

/** Gates a recipe's suite, or joins the same request under way. What was graded before, by any run, is not graded again. */
export function startGate(input: StartGateInput = {}): Promise<RunHandle<GateSuiteResult>> {
  const recipe = input.recipe ?? 'demo'
  return startRun({ type: 'gateSuite', name: recipe, request: { ...input, recipe } })
}
