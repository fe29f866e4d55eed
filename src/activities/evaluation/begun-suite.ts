import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { purposeOf } from '../../contracts/episode-purpose.ts'
import type { EpisodePurpose } from '../../contracts/episodes.types.ts'
import { gateKeys, runKeys, suiteKeys } from '../../contracts/keys.ts'
import type { IterationPlan } from '../../contracts/run-records.types.ts'
import type { OverlapRecord } from '../../contracts/suites.types.ts'
import type { SuiteManifest } from '../../contracts/tasks.types.ts'

type Store = Pick<ArtifactStore, 'folders' | 'readRecord'>

/**
 * The suite that a run plays, once it has passed its gate. Each evaluation of a run asks for its suite again, and so does a run that is
 * started again, days later or on another machine: its file may have been changed or moved by then.
 * @param which `train`, `heldOut`, or one of `evaluate.suites`
 */
export async function begunSuite(
  store: Store,
  { run, which }: { run: string; which: string },
): Promise<SuiteManifest | null> {
  const hash = (await plannedSuite(store, { run, which })) ?? (await comparedSuite(store, { run, which }))
  // Whose tasks were refused may change their file and start the run again.
  if (hash === null || (await store.readRecord(gateKeys.gated(run, hash))) === null) return null
  return store.readRecord<SuiteManifest>(suiteKeys.manifest(hash))
}

async function plannedSuite(store: Store, { run, which }: { run: string; which: string }): Promise<string | null> {
  for (const stage of await store.folders(runKeys.folder(run))) {
    const purpose = purposeOf(stage)
    if (!playsOn(purpose, which)) continue
    const plan = await store.readRecord<IterationPlan>(runKeys.plan(run, stage, purpose.kind === 'reinforce' ? 1 : 0))
    if (plan !== null) return plan.suite
  }
  return null
}

function playsOn(purpose: EpisodePurpose, which: string): boolean {
  if (purpose.kind !== 'evaluation') return which === 'train'
  return which === (purpose.suite ?? 'heldOut')
}

/** Of a training run that has planned nothing yet. */
async function comparedSuite(store: Store, { run, which }: { run: string; which: string }): Promise<string | null> {
  const compared = await store.readRecord<OverlapRecord>(runKeys.overlap(run))
  if (which === 'train') return compared?.train ?? null
  return which === 'heldOut' ? (compared?.evaluated[0] ?? null) : null
}
