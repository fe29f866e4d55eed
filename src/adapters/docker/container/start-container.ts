import type { Container, ContainerInspectInfo } from 'dockerode'

import { isStatus } from '../engine/engine-errors.ts'

/** Whether a stopped container may be started again: disk and journal are intact, only the processes are gone. A restart of the
 *  engine or the machine ends the main process by a signal. When the lease expires the main process exits with 0: such a
 *  sandbox stays ended. */
export function mayStartAgain({ Status: status, ExitCode: exitCode }: ContainerInspectInfo['State']): boolean {
  return status === 'exited' && exitCode !== 0
}

export async function startOnce(container: Container): Promise<void> {
  await container.start().catch((error: unknown) => {
    // 304: an attempt beside us was faster.
    if (!isStatus(error, 304)) throw error
  })
}
