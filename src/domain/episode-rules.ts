import { FAILURE_CODES, type FailureCode } from '../contracts/failure-codes.ts'
import type { Disposition, EpisodeRecord, PolicyDisposition, VerdictKind } from '../contracts/episodes.types.ts'
import { assertNever } from '../contracts/errors.ts'
import { mayBeOwnDoing } from './episode-losses.ts'

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

const NEEDS_NEW_SANDBOX: ReadonlySet<FailureCode> = new Set<FailureCode>([
  'Sandbox.Lost',
  'Sandbox.OutOfDisk',
  'Sandbox.Foreign',
])

/** What happens to an episode after a failure. */
export type FailureAnswer =
  /** The same step again: a repetition can help. */
  | { kind: 'retry' }
  /** A new sandbox, then the recorded turns. */
  | { kind: 're-place' }
  | { kind: 'end'; disposition: Disposition }
  /** Every other episode would meet the same wall: a person has to change something. */
  | { kind: 'fail-run' }

export function answerToFailure(code: FailureCode): FailureAnswer {
  // Another host may have room, where a while and the removal of images have not made any here. A new sandbox replays what one
  // that is behind, or belongs to an earlier execution, cannot be trusted to hold.
  if (NEEDS_NEW_SANDBOX.has(code) || mayBeOwnDoing(code)) return { kind: 're-place' }
  const { retryable, countsAs } = FAILURE_CODES[code]
  if (retryable) return { kind: 'retry' }
  switch (countsAs) {
    case 'policy':
      return { kind: 'end', disposition: code === 'Model.ContextOverflow' ? 'context-limit' : 'agent-gave-up' }
    case 'user':
      return { kind: 'fail-run' }
    case 'infra':
      return { kind: 'end', disposition: 'infra' }
    default:
      return assertNever(countsAs)
  }
}
