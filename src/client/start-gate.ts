import type { GateSuiteInput, GateSuiteResult } from '../contracts/workflows.types.ts'
import type { LonghaulConnection } from './connect.ts'
import { borrowConnection, makeRunHandle, type RunHandle } from './run-handle.ts'
import { startRoot } from './start-root.ts'

export interface StartGateInput extends Omit<GateSuiteInput, 'page'> {
  /** @default one from the environment, closed by the handle's `close` */
  connection?: LonghaulConnection
  /** Start a new gate although the same request is under way. @default false */
  fresh?: boolean
}

/** Gates a recipe's suite, or joins the same request under way. What was graded before, by any run, is not graded again. */
export async function startGate(input: StartGateInput = {}): Promise<RunHandle<GateSuiteResult>> {
  const { connection: given, fresh = false, ...rest } = input
  const { connection, ownsConnection } = await borrowConnection(given)
  const recipe = rest.recipe ?? 'demo'
  const started = await startRoot({ connection, type: 'gateSuite', input: { ...rest, recipe }, recipe, fresh })
  return makeRunHandle<GateSuiteResult>({ connection, ownsConnection, ...started })
}
