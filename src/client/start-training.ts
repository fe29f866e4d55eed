import type { TrainAgentInput, TrainAgentResult } from '../contracts/workflows.types.ts'
import type { LonghaulConnection } from './connect.ts'
import { borrowConnection, makeRunHandle, type RunHandle } from './run-handle.ts'
import { startRoot } from './start-root.ts'

export interface StartTrainingInput extends TrainAgentInput {
  /** @default one from the environment, closed by the handle's `close` */
  connection?: LonghaulConnection
  /** Start a new run although the same request is under way. @default false */
  fresh?: boolean
}

/** Starts the whole job (gate, base, RFT, DAPO, evaluations, promotion, report), or joins the same request under way. */
export async function startTraining(input: StartTrainingInput = {}): Promise<RunHandle<TrainAgentResult>> {
  const { connection: given, fresh = false, ...rest } = input
  const { connection, ownsConnection } = await borrowConnection(given)
  const recipe = rest.recipe ?? 'demo'
  const started = await startRoot({ connection, type: 'trainAgent', input: { ...rest, recipe }, recipe, fresh })
  return makeRunHandle<TrainAgentResult>({ connection, ownsConnection, ...started })
}
