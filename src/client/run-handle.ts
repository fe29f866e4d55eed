import type { RunProgress } from '../contracts/workflows.types.ts'
import { connect, type LonghaulConnection } from './connect.ts'
import { queryProgress } from './control-run.ts'
import { outcomeOf, type RunOutcome, type RunEvent, watchRun } from './watch-run.ts'

/** A run that was started or found. */
export interface RunHandle<T> {
  workflowId: string
  /** True where it ran (or had ended) already. */
  attached: boolean
  connection: LonghaulConnection
  /** Waits for the end, however long that takes; a failed run is an outcome, not a rejection. */
  outcome(): Promise<RunOutcome<T>>
  progress(): Promise<RunProgress | null>
  watch(options?: { intervalMs?: number; signal?: AbortSignal }): AsyncGenerator<RunEvent<T>>
  /** Closes the connection where the call that made this handle opened it. The run goes on. */
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

/** A caller's connection is used and left open; without one it comes from the environment. */
export async function resolveConnection(
  given: LonghaulConnection | undefined,
): Promise<{ connection: LonghaulConnection; ownsConnection: boolean }> {
  return given === undefined
    ? { connection: await connect(), ownsConnection: true }
    : { connection: given, ownsConnection: false }
}
