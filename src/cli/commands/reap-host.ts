import { connectEngine } from '../../adapters/docker/engine/engine.ts'
import { reapOrphaned, resourcesOfEngine, type ReapReport } from '../../adapters/docker/reaper/reap-orphaned.ts'
import { hostIdentity } from '../../platform/processes.ts'
import { stackHostId } from '../../stack/environment.ts'
import { stackPaths } from '../../stack/paths.ts'
import { createOwnerRegistry, namespaceIdOf } from '../../workers/workflow-owners.ts'
import { noteWait } from '../output/at-work.ts'
import { openStore, withConnection } from '../local-stack.ts'

/** Enough for many removals on a loaded engine; after this, something hangs. */
const TIMEOUT_MS = 120_000

export interface ReapHostInput {
  isDryRun: boolean
  /** @default LONGHAUL_HOST_ID, else the local stack's name for this machine */
  host?: string
}

/** One sweep of a host's orphaned resources on request, by the rules of the workers' reaper. */
export async function reapHost({ isDryRun, host }: ReapHostInput): Promise<{ host: string; report: ReapReport }> {
  const store = await openStore()
  return withConnection(async ({ client, namespace }) => {
    const { connection } = client
    const engine = await connectEngine()
    const own = process.env['LONGHAUL_HOST_ID'] || stackHostId(stackPaths().name)
    // A worker is known by the same rule.
    const name = host ?? hostIdentity(own).hostId
    const report = await reapOrphaned({
      holder: resourcesOfEngine(engine),
      reaper: { host: name, namespaceId: await namespaceIdOf(connection, namespace) },
      owners: createOwnerRegistry({ connection, namespace, store }),
      isDryRun,
      signal: AbortSignal.timeout(TIMEOUT_MS),
    }).finally(noteWait(`sweeping the engine ${engine.host}`))
    return { host: name, report }
  })
}
