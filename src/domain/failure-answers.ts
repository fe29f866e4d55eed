import type { Disposition } from '../contracts/episodes.types.ts'
import { assertNever } from '../contracts/errors.ts'
import { FAILURE_CODES, type FailureCode } from '../contracts/failure-codes.ts'

/**
 * Losses that what runs in a sandbox can bring about. Each is thrown only where the host saw nothing from outside at work: no engine
 * that restarted or was silent, no order to kill or remove, no machine that is gone (those are `Sandbox.Lost`).
 */
const OWN_DOING: ReadonlySet<FailureCode> = new Set<FailureCode>([
  'Sandbox.Ended',
  'Sandbox.DiskLimit',
  // Within one placement fences only rise, and the attempt that a workflow hears has the highest: a higher one was written inside.
  'Sandbox.Fenced',
  'Sandbox.JournalConflict',
  'Sandbox.Behind',
])

/** Whether a loss may be the policy's own doing. */
export function mayBeOwnDoing(loss: FailureCode): boolean {
  return OWN_DOING.has(loss)
}

/** An episode that loses three sandboxes has met something that a fourth will not cure. */
const MAX_LOSSES = 3

export type AfterLoss = 'place-again' | 'own-doing' | 'infra'

/**
 * What becomes of an episode that has lost sandboxes. Its turns are replayed in another one, so what the policy did to the first it
 * does to the second: twice is its own doing, and so is a world that cannot be rebuilt after a loss that may have been. Else a policy
 * that does not like its chances would only have to end its sandbox to be played again.
 * @param losses in order, all of this execution, at least one
 */
export function judgeLosses(losses: readonly FailureCode[]): AfterLoss {
  // Counted from outside: nothing else can have been at work.
  if (losses.at(-1) === 'Sandbox.DiskLimit') return 'own-doing'
  const suspected = losses.filter(mayBeOwnDoing).length
  if (losses.at(-1) === 'Sandbox.Diverged') return suspected === 0 ? 'infra' : 'own-doing'
  if (suspected >= 2) return 'own-doing'
  // A sandbox of an earlier execution is not lost, it only is not ours.
  const lost = losses.filter((loss) => loss !== 'Sandbox.Foreign').length
  return lost >= MAX_LOSSES ? 'infra' : 'place-again'
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
