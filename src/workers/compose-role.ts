import type { NativeConnection, WorkerOptions } from '@temporalio/worker'
import { assertNever } from '../contracts/errors.ts'
import { composeArtifacts } from './compose-artifacts.ts'
import { composeControl } from './compose-control.ts'
import { composeSandbox } from './compose-sandbox.ts'
import { composeTrainer } from './compose-trainer.ts'
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
): Promise<Composed> {
  switch (role) {
    case 'control':
      return composeControl(environment)
    case 'sandbox':
      return composeSandbox(environment, connection)
    case 'trainer':
      return composeTrainer(environment)
    case 'artifacts':
      return composeArtifacts(environment)
    default:
      return assertNever(role)
  }
}
