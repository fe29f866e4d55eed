import type { Disposition, EpisodeRecord, PolicyDisposition, VerdictKind } from '../../contracts/episodes.types.ts'
import { assertNever } from '../../contracts/errors.ts'

/** Endings that are the policy's own doing: they train, and they count in every mean. */
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

/** An episode with a reward: it ended by the policy's doing and was graded. */
export type ValidEpisode = EpisodeRecord & {
  disposition: PolicyDisposition
  verdict: Exclude<VerdictKind, 'could-not-grade'>
}

export function isValidEpisode(record: EpisodeRecord): record is ValidEpisode {
  return isPolicyDisposition(record.disposition) && (record.verdict === 'resolved' || record.verdict === 'unresolved')
}

/** Why an episode has no reward. Facts about us, never about the policy. */
export type ExclusionReason = 'infra' | 'cancelled' | 'stale' | 'could-not-grade'

/** Null for a valid episode. */
export function exclusionOf(record: EpisodeRecord): ExclusionReason | null {
  if (isValidEpisode(record)) return null
  const { disposition } = record
  if (disposition === 'infra' || disposition === 'cancelled' || disposition === 'stale') return disposition
  return 'could-not-grade'
}

/** The verdict of an episode that reached no grader. Lost work is not judged; work that was never submitted is an empty patch. */
export function ungradedVerdict(disposition: Disposition): { verdict: VerdictKind | null; reason: string | null } {
  if (!isPolicyDisposition(disposition)) return { verdict: null, reason: null }
  if (disposition === 'submitted') return { verdict: 'could-not-grade', reason: 'not-graded' }
  if (disposition === 'agent-gave-up') return { verdict: 'unresolved', reason: 'sandbox-ended' }
  return { verdict: 'unresolved', reason: 'not-submitted' }
}
