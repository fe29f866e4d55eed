import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { Disposition } from '../../contracts/episodes.types.ts'
import type { EpisodeInput, EpisodeResult } from '../../contracts/workflows.types.ts'
import type { VerdictRecord } from '../../contracts/episodes.types.ts'
import { episodeId, episodeKeys } from '../../contracts/keys.ts'
import { isPolicyDisposition, ungradedVerdict } from '../../domain/ledger/episode-rules.ts'
import { recordOutcome } from '../episode/episode-result.ts'
import { readIfWhole } from '../runtime/whole-record.ts'

/**
 * The last word on an episode whose grading never ended: what was submitted and could not be graded has no reward, counts in
 * no mean, and enters the ledger as excluded. A grader that died after its verdict has been heard all the same.
 */
export async function recordUngraded(
  store: ArtifactStore,
  input: EpisodeInput & { disposition: Disposition; failure: string | null },
): Promise<EpisodeResult> {
  const { disposition, failure } = input
  const graded = isPolicyDisposition(disposition)
    ? await readIfWhole<VerdictRecord>(store, episodeKeys.verdict(episodeId(input)))
    : null
  const { verdict, reason } =
    graded === null ? ungradedVerdict(disposition) : { verdict: graded.kind, reason: graded.reason }
  const verdictReason = verdict === 'could-not-grade' && graded === null ? (failure ?? reason) : reason
  const signs = graded?.signs ?? []
  const audit = graded?.audit
  return recordOutcome(store, input, { disposition, failure, verdict, verdictReason, signs, audit, patchBytes: 0 })
}
