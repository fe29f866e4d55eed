import type { Disposition } from '../contracts/episodes.types.ts'
import { assertNever } from '../contracts/errors.ts'
import { FAILURE_CODES, type FailureCode } from '../contracts/failure-codes.ts'

/**
 * Losses that processes in a sandbox can cause. Each is thrown only if the host saw no outside cause, such as a restarted or silent
 * engine, a kill, a removal or a lost machine, which are `Sandbox.Lost`.
 */
const OWN_DOING: ReadonlySet<FailureCode> = new Set<FailureCode>([
  'Sandbox.Ended',
  'Sandbox.DiskLimit',
  // Fences only rise within one placement, and the attempt that the workflow follows has the highest. A higher one was therefore
  // written inside the sandbox.
  'Sandbox.Fenced',
  'Sandbox.JournalConflict',
  'Sandbox.Behind',
])

/** Returns whether the policy itself may have caused a loss. */
export function mayBeOwnDoing(loss: FailureCode): boolean {
  return OWN_DOING.has(loss)
}

/** After three lost sandboxes a fourth would not help. */
const MAX_LOSSES = 3

export type AfterLoss = 'place-again' | 'own-doing' | 'infra'

/**
 * Decides what happens to an episode that has lost sandboxes. A second sandbox replays its turns, so the policy repeats what it did to
 * the first. Two losses therefore count as the policy's own doing, and so does a divergence after a suspected loss. Otherwise a policy
 * could end its sandbox to get another try.
 * @param losses in order, all of this execution, at least one
 */
export function judgeLosses(losses: readonly FailureCode[]): AfterLoss {
  // Measured from outside, so there is no other possible cause.
  if (losses.at(-1) === 'Sandbox.DiskLimit') return 'own-doing'
  const suspected = losses.filter(mayBeOwnDoing).length
  if (losses.at(-1) === 'Sandbox.Diverged') return suspected === 0 ? 'infra' : 'own-doing'
  if (suspected >= 2) return 'own-doing'
  // A sandbox of an earlier execution is not lost, but it belongs to another execution.
  const lost = losses.filter((loss) => loss !== 'Sandbox.Foreign').length
  return lost >= MAX_LOSSES ? 'infra' : 'place-again'
}

const NEEDS_NEW_SANDBOX: ReadonlySet<FailureCode> = new Set<FailureCode>([
  'Sandbox.Lost',
  'Sandbox.OutOfDisk',
  'Sandbox.Foreign',
  'Host.Closed',
])

/** The reaction to an episode's failure. */
export type FailureAnswer =
  /** The same step is retried, because a repetition may succeed. */
  | { kind: 'retry' }
  /** A new sandbox is requested, in which the recorded turns are replayed. */
  | { kind: 're-place' }
  | { kind: 'end'; disposition: Disposition }
  /** Every other episode would fail in the same way until an operator changes something. */
  | { kind: 'fail-run' }

export function answerToFailure(code: FailureCode): FailureAnswer {
  // Another host may have room. A sandbox that is behind, or that belongs to an earlier execution, lacks turns that a new one replays.
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
