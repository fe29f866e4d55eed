import type { EvaluateInput, EvaluateResult } from '../contracts/workflows.types.ts'
import type { LonghaulConnection } from './connect.ts'
import { borrowConnection, makeRunHandle, type RunHandle } from './run-handle.ts'
import { startRoot } from './start-root.ts'

export interface StartEvaluationInput extends Omit<EvaluateInput, 'child'> {
  /** @default one from the environment, closed by the handle's `close` */
  connection?: LonghaulConnection
  /** Start a new evaluation although the same request is under way. @default false */
  fresh?: boolean
}

/** Evaluates a policy on the recipe's held-out suite, or joins the same request under way. */
export async function startEvaluation(input: StartEvaluationInput = {}): Promise<RunHandle<EvaluateResult>> {
  const { connection: given, fresh = false, ...rest } = input
  const { connection, ownsConnection } = await borrowConnection(given)
  const recipe = rest.recipe ?? 'nightly'
  const started = await startRoot({ connection, type: 'evaluate', input: { ...rest, recipe }, recipe, fresh })
  return makeRunHandle<EvaluateResult>({ connection, ownsConnection, ...started })
}
