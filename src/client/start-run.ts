import type { LonghaulConnection } from './connect.ts'
import { borrowConnection, makeRunHandle, type RunHandle } from './run-handle.ts'
import { type ROOT_IDS, type RootInput, startRoot } from './start-root.ts'

/** What every start takes beside the request itself. */
export interface StartOptions {
  /** @default one from the environment, closed by the handle's `close` */
  connection?: LonghaulConnection
  /** Start a new run although the same request is under way. @default false */
  fresh?: boolean
}

export interface StartRunInput {
  type: keyof typeof ROOT_IDS
  /** Begins the run's name where the request gives none. */
  name: string
  request: RootInput & StartOptions
}

/** Starts a root, or joins the same request under way. */
export async function startRun<T>({ type, name, request }: StartRunInput): Promise<RunHandle<T>> {
  const { connection: given, fresh = false, ...input } = request
  const { connection, ownsConnection } = await borrowConnection(given)
  const started = await startRoot({ connection, type, input, recipe: name, fresh })
  return makeRunHandle<T>({ connection, ownsConnection, ...started })
}
