import type { NativeConnection, WorkerOptions } from '@temporalio/worker'
import { assertNever } from '../contracts/errors.ts'
import { composeArtifacts } from './compose-artifacts.ts'
import { composeControl } from './compose-control.ts'
import { composeSandbox } from './compose-sandbox.ts'
import { composeTrainer } from './compose-trainer.ts'
import type { Interposers } from './connect.ts'
import type { Role } from './run-worker.ts'
import type { WorkerEnvironment } from './worker-environment.ts'

/** The workers of one role, and how to let go of what they hold. */
export interface Composed {
  workers: Omit<WorkerOptions, 'connection'>[]
  dispose(): Promise<void>
}

export function composeRole(
  role: Role,
  environment: WorkerEnvironment,
  connection: NativeConnection,
  between: Interposers,
): Promise<Composed> {
  switch (role) {
    case 'control':
      return composeControl(environment, connection, between)
    case 'sandbox':
      return composeSandbox(environment, connection, between)
    case 'trainer':
      return composeTrainer(environment, between)
    case 'artifacts':
      return composeArtifacts(environment, between)
    default:
      return assertNever(role)
  }
}
