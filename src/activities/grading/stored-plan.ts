import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { VerdictRecord } from '../../contracts/episodes.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { GradingInstance, GradingPlan, ShortVerdict, UngradedRecord } from '../../contracts/grading.types.ts'
import { type GradingIdentity, gradingKeys } from '../../contracts/keys.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { cachedRequired, RUN_RECORDS_FRESH_MS } from '../runtime/stored-records.ts'

export type PlanReader = (run: string) => Promise<GradingPlan>

/** A plan of thousands of patches is read for each of them, so a worker keeps the last few plans. */
export function createPlanReader(store: ArtifactStore): PlanReader {
  return cachedRequired(store, { key: (run) => gradingKeys.plan(run), max: 4, freshMs: RUN_RECORDS_FRESH_MS })
}

export function instanceAt({ run, instances }: GradingPlan, index: number): GradingInstance {
  const instance = instances[index]
  if (instance !== undefined) return instance
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: 'The grading plan has no such index',
    details: { run, index, places: instances.length },
  })
}

export function identityOf(run: string, { taskId, profile, episode, patch }: GradingInstance): GradingIdentity {
  return { run, taskId, profile, episode, patchSha256: patch?.sha256 ?? sha256Hex('') }
}

/** The result of a patch: its verdict, the reason for having none, or null before it was graded. */
export async function readVerdict(
  store: ArtifactStore,
  run: string,
  instance: GradingInstance,
): Promise<ShortVerdict | null> {
  if (instance.fault !== null) return { kind: 'unresolved', reason: 'patch-rejected' }
  if (instance.patch === null) return { kind: 'unresolved', reason: 'empty-patch' }
  const identity = identityOf(run, instance)
  const verdict = await store.readRecord<VerdictRecord>(gradingKeys.file(identity, 'verdict.json'))
  if (verdict !== null) return { kind: verdict.kind, reason: verdict.reason }
  const ungraded = await store.readRecord<UngradedRecord>(gradingKeys.file(identity, 'ungraded.json'))
  return ungraded === null ? null : { kind: 'could-not-grade', reason: ungraded.reason }
}

/** Records why a patch could not be graded, unless a record exists. */
export async function recordUngradedPatch(
  store: ArtifactStore,
  run: string,
  instance: GradingInstance,
  reason: string,
): Promise<ShortVerdict> {
  const key = gradingKeys.file(identityOf(run, instance), 'ungraded.json')
  const { taskId } = instance
  await store.claimRecord<UngradedRecord>(key, { schema: 'longhaul.ungraded/1', run, taskId, reason })
  return { kind: 'could-not-grade', reason }
}
