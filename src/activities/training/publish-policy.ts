import { Context } from '@temporalio/activity'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import { selfCheck } from '../../adapters/policy-server/self-check.ts'
import { verifyCanary, verifyTokenizer, verifyWindow } from '../../adapters/policy-server/canary.ts'
import type { WindowFile } from '../../adapters/trainer-job/job/window-job.ts'
import type { ActivityScope } from '../runtime/activity-runtime.ts'
import type { ChatClients, PolicyClients } from '../runtime/policy-clients.ts'
import type { RecipeReader } from '../runtime/stored-records.ts'

export interface PublishDependencies {
  recipes: RecipeReader
  policies: PolicyClients
  chats: ChatClients
}

/** Median difference of log-probabilities that rounding alone explains, in nats. */
const CANARY_TOLERANCE = { float32: 1e-3, bfloat16: 2e-2 } as const

/** An iteration may start only after version, canary and sampling are verified on every server, because an HTTP success proves
 *  nothing. */
export async function publishPolicy(
  { policies, chats, recipes }: PublishDependencies,
  { run, ref, windowOf }: { run: string; ref: PolicyRef; windowOf: () => Promise<WindowFile | null> },
  { signal, beat }: ActivityScope,
): Promise<void> {
  const { policyServer, trainer } = await recipes(run)
  // Chat endpoints are externally managed: there is nothing to load and no proof of their weights.
  if (policyServer.kind === 'chat') return (await chats(run)).check(signal)
  beat({ phase: 'loading', policy: ref.version })
  const pool = await policies(run)
  await pool.load({ policy: ref, holder: run, leaseMs: policyServer.leaseS * 1000 }, signal)
  // After the servers have answered, so that an unreachable one is named before the trainer computes anything.
  const window = await windowOf()
  beat({ phase: 'verifying', policy: ref.version })
  const tolerance = CANARY_TOLERANCE[trainer.exportDtype]
  for (const { url, client } of pool.servers) {
    try {
      await verifyTokenizer({ client, policy: ref, signal })
      await verifyCanary({ client, policy: ref, tolerance, signal })
      if (window !== null) {
        await verifyWindow({ client, policy: ref.version, path: window.path, tolerance, signal })
      }
      await selfCheck({ client, policy: ref.version, tolerance, signal })
    } catch (error) {
      if (!isLonghaulError(error)) throw error
      const { code, message, details } = error
      throw new LonghaulError({ code, message, details: { ...details, server: url }, cause: error })
    }
  }
}

/** Leases expire on their own, so an unreachable server must not keep a run from ending or hide why it failed. */
export async function releasePolicies(
  { policies, recipes }: Pick<PublishDependencies, 'policies' | 'recipes'>,
  run: string,
): Promise<void> {
  try {
    const { kind, launch } = (await recipes(run)).policyServer
    // Launched engines have ended, and their leases with them.
    if (kind === 'chat' || (launch ?? null) !== null) return
    await (await policies(run)).release({ holder: run })
  } catch (error) {
    Context.current().log.warn('lease not released, it will expire', { run, error: String(error) })
  }
}
