import type { Disposition, EpisodeRecord, PolicyDisposition, VerdictKind } from '../../contracts/episodes.types.ts'
import { assertNever } from '../../contracts/errors.ts'

/** Endings caused by the policy itself. They are used for training and count in every mean. */
export function isPolicyDisposition(disposition: Disposition): disposition is PolicyDisposition {
  switch (disposition) {
    case 'submitted':
    case 'turn-limit':
    case 'context-limit':
    case 'time-limit':
    case 'agent-gave-up':
      return true
    case 'infra':
    case 'cancelled':
    case 'stale':
      return false
    default:
      return assertNever(disposition)
  }
}

/** An episode with a reward: the policy ended it and it was graded. */
export type ValidEpisode = EpisodeRecord & {
  disposition: PolicyDisposition
  verdict: Exclude<VerdictKind, 'could-not-grade'>
}

export function isValidEpisode(record: EpisodeRecord): record is ValidEpisode {
  return isPolicyDisposition(record.disposition) && (record.verdict === 'resolved' || record.verdict === 'unresolved')
}

/** Why an episode has no reward. The reasons concern infrastructure and operators, never the policy. */
export type ExclusionReason = 'infra' | 'cancelled' | 'stale' | 'could-not-grade'

/** Null for a valid episode. */
export function exclusionOf(record: EpisodeRecord): ExclusionReason | null {
  if (isValidEpisode(record)) return null
  const { disposition } = record
  if (disposition === 'infra' || disposition === 'cancelled' || disposition === 'stale') return disposition
  return 'could-not-grade'
}

/** The verdict of an episode that reached no grader. A lost episode is not judged; an episode without a submission counts as an
 *  empty patch. */
export function ungradedVerdict(disposition: Disposition): { verdict: VerdictKind | null; reason: string | null } {
  if (!isPolicyDisposition(disposition)) return { verdict: null, reason: null }
  if (disposition === 'submitted') return { verdict: 'could-not-grade', reason: 'not-graded' }
  if (disposition === 'agent-gave-up') return { verdict: 'unresolved', reason: 'sandbox-ended' }
  return { verdict: 'unresolved', reason: 'not-submitted' }
}
