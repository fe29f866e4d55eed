import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { suiteKeys } from '../../contracts/keys.ts'
import type { GateRecord } from './gate-task.ts'

/** The image that the task's gate ran in: what an episode plays and is graded in must be the same bytes on every host. */
export async function gatedDigest(
  store: ArtifactStore,
  { suite, taskId }: { suite: string; taskId: string },
): Promise<{ expectedDigest?: string }> {
  const gate = await store.readRecord<GateRecord>(suiteKeys.gate(suite, taskId, 'gold', 1))
  return gate?.imageDigest === undefined ? {} : { expectedDigest: gate.imageDigest }
}
