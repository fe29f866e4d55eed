import type { EvaluationRecord } from '../contracts/evaluations.types.ts'
import type { Comparability } from '../domain/statistics/comparability.ts'
import type { Comparison } from '../domain/statistics/comparison.ts'

export type ComparedEvaluation = Pick<EvaluationRecord, 'run' | 'name' | 'suite' | 'score' | 'cost'>

/** Everything that a comparison shows. */
export interface ComparisonData {
  before: ComparedEvaluation
  after: ComparedEvaluation
  comparison: Comparison
  comparability: Comparability
  /** What the rules of the caller say, one line each; the exit code follows from the same. */
  verdicts: string[]
}

/** `base of demo-2026-11-20-a`. */
export function nameOf({ run, name }: ComparedEvaluation): string {
  return `${name} of ${run}`
}
