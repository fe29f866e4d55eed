import type { GradedCase } from './container-cases.ts'

/** Number of cases by Longhaul's outcome. */
export function countOutcomes(graded: readonly GradedCase[]): Record<string, number> {
  const outcomes: Record<string, number> = {}
  for (const { graded: result } of graded) {
    const words = result === null ? ['empty-patch'] : [result.kind, ...(result.reason === null ? [] : [result.reason])]
    const outcome = words.join(': ')
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
  }
  return outcomes
}
