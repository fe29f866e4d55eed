import { LonghaulError } from '../../contracts/errors.ts'
import type { EvaluationRecord } from '../../contracts/evaluations.types.ts'
import { checkComparability, type Comparability } from '../../domain/statistics/comparability.ts'
import { compareEvaluations } from '../../domain/statistics/comparison.ts'
import type { ComparisonData } from '../../report/comparison-data.ts'
import type { ExitCode } from './exit-codes.ts'
import { type ComparisonRules, judgeComparison } from './judge-comparison.ts'

export interface CompareOptions extends ComparisonRules {
  before: EvaluationRecord
  after: EvaluationRecord
  /** Share of such intervals that hold the true difference. */
  confidence: number
  /** Compare what both sides have, instead of refusing other tasks. */
  intersect: boolean
}

/** @throws LonghaulError `Config.Invalid` where the two sides played different tasks */
export function compareAndJudge(options: CompareOptions): { data: ComparisonData; codes: ExitCode[] } {
  const { before, after, confidence, intersect, maxRegression } = options
  const comparability = checkComparability(before, after)
  refuseOtherTasks(comparability, intersect)
  const comparison = compareEvaluations({
    before: before.tasks,
    after: after.tasks,
    level: confidence,
    isSameCurrency: before.cost !== undefined && before.cost.prices.currency === after.cost?.prices.currency,
    line: maxRegression === null ? 0 : -maxRegression,
  })
  const { codes, verdicts } = judgeComparison({ before, after, comparison }, options)
  return { data: { before, after, comparison, comparability, verdicts }, codes }
}

/** A task whose row changed is another task: no option makes it comparable. */
function refuseOtherTasks({ otherRows, onlyBefore, onlyAfter }: Comparability, intersect: boolean): void {
  if (otherRows.length > 0) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected the same tasks on both sides; ${otherRows.length} have the same id and another row, such as ${otherRows[0]}`,
    })
  }
  if (intersect || onlyBefore.length + onlyAfter.length === 0) return
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected the same tasks on both sides; ${onlyBefore.length} are only before, ${onlyAfter.length} only after. --intersect compares what both have`,
  })
}
