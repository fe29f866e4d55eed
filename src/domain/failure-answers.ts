import type { Disposition } from '../contracts/episodes.types.ts'
import { assertNever } from '../contracts/errors.ts'
import { FAILURE_CODES, type FailureCode } from '../contracts/failure-codes.ts'

/**
 * Losses that processes in a sandbox can cause. Each is thrown only if the host saw no outside cause: a restarted or silent engine,
 * a kill or removal, a machine that is gone (those are `Sandbox.Lost`).
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

/** After three lost sandboxes a fourth would not help. */
const MAX_LOSSES = 3

export type AfterLoss = 'place-again' | 'own-doing' | 'infra'

/**
 * What becomes of an episode that has lost sandboxes. A second sandbox replays its turns, so the policy does to it what it did to the
 * first: twice is its own doing, and so is a divergence after a suspected loss. Else a policy could end its sandbox to be played again.
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
  'Host.Closed',
])

/** What happens to an episode after a failure. */
export type FailureAnswer =
  /** The same step again: a repetition can help. */
  | { kind: 'retry' }
  /** A new sandbox, then the recorded turns. */
  | { kind: 're-place' }
  | { kind: 'end'; disposition: Disposition }
  /** Every other episode would fail in the same way until a person changes something. */
  | { kind: 'fail-run' }

export function answerToFailure(code: FailureCode): FailureAnswer {
  // Another host may have room. A sandbox that is behind, or of an earlier execution, lacks turns that a new one replays.
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
