import type { GradePredictionsInput, GradePredictionsResult } from '../contracts/workflows.types.ts'
import type { LonghaulConnection } from './connect.ts'
import { borrowConnection, makeRunHandle, type RunHandle } from './run-handle.ts'
import { startRoot } from './start-root.ts'

export interface StartGradingInput extends Omit<GradePredictionsInput, 'opened' | 'from' | 'counts' | 'paused'> {
  /** @default one from the environment, closed by the handle's `close` */
  connection?: LonghaulConnection
  /** Start a new run although the same request is under way. @default false */
  fresh?: boolean
}

/** Grades anyone's predictions, or the stored patches of a run again; joins the same request under way. */
export async function startGrading(input: StartGradingInput): Promise<RunHandle<GradePredictionsResult>> {
  const { connection: given, fresh = false, ...rest } = input
  const { connection, ownsConnection } = await borrowConnection(given)
  const name = rest.regrade === undefined ? 'grade' : `regrade-${rest.regrade}`.slice(0, 80)
  const started = await startRoot({ connection, type: 'gradePredictions', input: rest, recipe: name, fresh })
  return makeRunHandle<GradePredictionsResult>({ connection, ownsConnection, ...started })
}
