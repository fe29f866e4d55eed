import type { ArtifactRef, ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { EpisodeRecord } from '../../contracts/episodes.types.ts'
import type { GradingPlan, ShortVerdict } from '../../contracts/grading.types.ts'
import { episodeKeys, gradingKeys } from '../../contracts/keys.ts'
import { readEpisodeRecords } from '../episode/episode-records.ts'
import { readIterationPlans } from '../evaluation/played-tasks.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { readVerdict } from './stored-plan.ts'

export interface StoredPatch {
  suite: string
  taskId: string
  /** Policy of an episode, model of a prediction. */
  model: string
  patch: ArtifactRef
  episode: string | null
  before: ShortVerdict | null
}

/** Every patch of a run that can be graded again, with its first verdict: of its episodes, or of its predictions. */
export async function collectPatches(
  store: ArtifactStore,
  { run, stages }: { run: string; stages: readonly string[] },
): Promise<StoredPatch[]> {
  const graded = await store.readRecord<GradingPlan>(gradingKeys.plan(run))
  return graded === null ? ofEpisodes(store, run, stages) : ofPlan(store, graded)
}

async function ofPlan(store: ArtifactStore, { run, instances }: GradingPlan): Promise<StoredPatch[]> {
  const patches: StoredPatch[] = []
  for (const instance of instances) {
    const { suite, taskId, model, patch, episode } = instance
    if (patch === null) continue
    patches.push({ suite, taskId, model, patch, episode, before: await readVerdict(store, run, instance) })
  }
  return patches
}

async function ofEpisodes(store: ArtifactStore, run: string, stages: readonly string[]): Promise<StoredPatch[]> {
  const patches: StoredPatch[] = []
  for (const plan of await readIterationPlans(store, run)) {
    if (stages.length > 0 && !stages.includes(plan.stage)) continue
    for (const record of await readEpisodeRecords(store, plan)) {
      const patch = await patchOf(store, record)
      if (patch === null) continue
      const { taskId, policy, episode, verdict, verdictReason: reason } = record
      const before = verdict === null ? null : { kind: verdict, reason }
      patches.push({ suite: plan.suite, taskId, model: policy, patch, episode, before })
    }
  }
  return patches
}

/** Null where nothing was submitted, or nothing was in it: there is nothing to run. */
async function patchOf(store: ArtifactStore, { episode }: EpisodeRecord): Promise<ArtifactRef | null> {
  const key = episodeKeys.patch(episode)
  const bytes = await store.read(key)
  return bytes === null || bytes.length === 0 ? null : { key, sha256: sha256Hex(bytes), bytes: bytes.length }
}
