import type { RunProgress } from '../contracts/workflows.types.ts'
import { connect, type LonghaulConnection } from './connect.ts'
import { queryProgress } from './control-run.ts'
import { outcomeOf, type RunOutcome, type RunEvent, watchRun } from './watch-run.ts'

/** A run that was started or found. */
export interface RunHandle<T> {
  workflowId: string
  /** True if it already ran or had ended. */
  attached: boolean
  connection: LonghaulConnection
  /** Waits for the end without a limit. A failed run is an outcome, not a rejection. */
  outcome(): Promise<RunOutcome<T>>
  progress(): Promise<RunProgress | null>
  watch(options?: { intervalMs?: number; signal?: AbortSignal }): AsyncGenerator<RunEvent<T>>
  /** Closes the connection if the call that made this handle opened it. The run continues. */
  close(): Promise<void>
}

export function makeRunHandle<T>({
  connection,
  workflowId,
  attached,
  ownsConnection,
}: {
  connection: LonghaulConnection
  workflowId: string
  attached: boolean
  ownsConnection: boolean
}): RunHandle<T> {
  return {
    workflowId,
    attached,
    connection,
    outcome: () => outcomeOf<T>(connection.client.workflow.getHandle(workflowId)),
    progress: () => queryProgress({ connection, workflowId }),
    watch: (options = {}) => watchRun<T>({ connection, workflowId, ...options }),
    close: () => (ownsConnection ? connection.close() : Promise.resolve()),
  }
}

/** Uses the caller's connection and leaves it open, or opens one from the environment. */
export async function resolveConnection(
  given: LonghaulConnection | undefined,
): Promise<{ connection: LonghaulConnection; ownsConnection: boolean }> {
  return given === undefined
    ? { connection: await connect(), ownsConnection: true }
    : { connection: given, ownsConnection: false }
}
