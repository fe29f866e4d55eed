import { isFailureCode } from '../contracts/failure-codes.ts'
import type { GradedInstance, ShortVerdict } from '../contracts/grading.types.ts'

/** A verdict that is not the first one. Where there was none at first, nothing can have changed. */
export function isChanged({ kind, before }: Pick<GradedInstance, 'kind' | 'before'>): boolean {
  return before !== null && before.kind !== kind
}

/** Ours, and another host or day may do better; what the patch itself prevents (it does not apply, its tests never end) is not. */
export function isLostToInfrastructure({ kind, reason }: ShortVerdict): boolean {
  return kind === 'could-not-grade' && (reason === 'image' || isFailureCode(reason))
}
