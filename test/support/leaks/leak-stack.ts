import { changeEnvironment } from '../environment.ts'
import { startStack } from '../start-stack.ts'
import { type PipelineWorld, worldOf } from '../pipeline-world.ts'
import { startObedientPolicyServer } from './obedient-policy-server.ts'

export interface LeakWorld extends PipelineWorld {
  policyUrl: string
}

/** Temporal, the control worker and a policy server; the scenario itself starts and kills sandbox workers. */
export async function withLeakStack<T>(
  { name, home, signal }: { name: string; home: string; signal: AbortSignal },
  work: (world: LeakWorld) => Promise<T>,
): Promise<T> {
  const policy = await startObedientPolicyServer()
  const restore = changeEnvironment({ LONGHAUL_POLICY_URL: policy.url })
  try {
    const stack = await startStack({ name, home, roles: ['control'], policyServer: false, quiet: true, signal })
    try {
      // A stack with only the control role has no engine of its own.
      const world = await worldOf({ ...stack, dockerHost: stack.dockerHost ?? process.env['DOCKER_HOST'] ?? null })
      try {
        return await work({ ...world, policyUrl: policy.url })
      } finally {
        await world.close()
      }
    } finally {
      await stack.stop()
    }
  } finally {
    restore()
    await policy.close()
  }
}
