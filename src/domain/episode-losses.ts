import type { FailureCode } from '../contracts/failure-codes.ts'

/**
 * Losses that what runs in a sandbox can bring about. Each is thrown only where the host saw nothing from outside at work: no engine
 * that restarted or was silent, no order to kill or remove, no machine that is gone (those are `Sandbox.Lost`).
 */
const OWN_DOING: ReadonlySet<FailureCode> = new Set<FailureCode>([
  'Sandbox.Ended',
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
  const suspected = losses.filter(mayBeOwnDoing).length
  if (losses.at(-1) === 'Sandbox.Diverged') return suspected === 0 ? 'infra' : 'own-doing'
  if (suspected >= 2) return 'own-doing'
  // A sandbox of an earlier execution is not lost, it only is not ours.
  const lost = losses.filter((loss) => loss !== 'Sandbox.Foreign').length
  return lost >= MAX_LOSSES ? 'infra' : 'place-again'
}
