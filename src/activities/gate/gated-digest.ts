import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { GatedSuite } from '../../contracts/gates.types.ts'
import { gateKeys } from '../../contracts/keys.ts'

/** Gated lists are immutable, and every episode asks. */
const known = new WeakMap<ArtifactStore, Map<string, GatedSuite>>()

/** The image that the task's gate ran in: what an episode plays and is graded in must be the same bytes on every host. */
export async function gatedDigest(
  store: ArtifactStore,
  { run, suite, taskId }: { run: string; suite: string; taskId: string },
): Promise<{ expectedDigest?: string }> {
  const expectedDigest = (await gatedSuite(store, run, suite))?.digests[taskId]
  return expectedDigest === undefined ? {} : { expectedDigest }
}

async function gatedSuite(store: ArtifactStore, run: string, suite: string): Promise<GatedSuite | null> {
  const key = gateKeys.gated(run, suite)
  const cache = known.get(store) ?? new Map<string, GatedSuite>()
  known.set(store, cache)
  const cached = cache.get(key)
  if (cached !== undefined) return cached
  const gated = await store.readRecord<GatedSuite>(key)
  if (gated !== null) cache.set(key, gated)
  return gated
}
