import { isFailureCode } from '../contracts/failure-codes.ts'
import type { GradedInstance, ShortVerdict } from '../contracts/grading.types.ts'

/** Returns whether the verdict differs from the first one. Without a first verdict nothing can have changed. */
export function isChanged({ kind, before }: Pick<GradedInstance, 'kind' | 'before'>): boolean {
  return before !== null && before.kind !== kind
}

/** Returns whether infrastructure prevented the verdict, so that another host or day may succeed. Failures that the patch itself
 *  causes (it does not apply, its tests never end) do not count. */
export function isLostToInfrastructure({ kind, reason }: ShortVerdict): boolean {
  return kind === 'could-not-grade' && (reason === 'image' || isFailureCode(reason))
}
