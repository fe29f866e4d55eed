import type { Container, ContainerInspectInfo } from 'dockerode'

import { isStatus } from '../engine/engine-errors.ts'

/** Whether a container that does not run may run again: its disk is whole and its journal says what was done, so only the
 *  processes are gone. An engine or a machine that restarts ends the main process by a signal. By itself that ends
 *  with 0, when nobody renewed the lease: such a sandbox stays ended. */
export function mayStartAgain({ Status: status, ExitCode: exitCode }: ContainerInspectInfo['State']): boolean {
  return status === 'exited' && exitCode !== 0
}

export async function startOnce(container: Container): Promise<void> {
  await container.start().catch((error: unknown) => {
    // 304: an attempt beside us was faster.
    if (!isStatus(error, 304)) throw error
  })
}
