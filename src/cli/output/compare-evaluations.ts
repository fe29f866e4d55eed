import { LonghaulError } from '../../contracts/errors.ts'
import type { EvaluationRecord } from '../../contracts/evaluations.types.ts'
import { checkComparability, type Comparability, gradedShare } from '../../domain/statistics/comparability.ts'
import { compareEvaluations, type Comparison } from '../../domain/statistics/comparison.ts'
import { decideRegression } from '../../domain/statistics/judge-night.ts'
import type { ComparisonData } from '../../report/comparison-tables.ts'
import { type ExitCode, EXIT } from './exit-codes.ts'

interface CompareOptions extends ComparisonRules {
  before: EvaluationRecord
  after: EvaluationRecord
  /** Share of such intervals that contain the true difference. */
  confidence: number
  /** Compare the common tasks, instead of refusing different ones. */
  intersect: boolean
}

/** @throws LonghaulError `Config.Invalid` if the two sides played different tasks */
export function compareAndJudge(options: CompareOptions): { data: ComparisonData; findings: RuleFinding[] } {
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
  const findings = judgeComparison({ before, after, comparison }, options)
  const verdicts = findings.map(({ text }) => text)
  return { data: { before, after, comparison, comparability, verdicts }, findings }
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

interface ComparisonRules {
  /** Largest allowed loss of pass@1; null = not judged. */
  maxRegression: number | null
  /** The lower bound of the difference must reach this; null = not judged. */
  minDifference: number | null
  /** Whether a regression that cannot be excluded is a missed threshold. */
  strict: boolean
  /** Below this share of graded attempts on either side, nothing is judged. */
  minGraded: number
}

/** What one rule says of an evaluation or a comparison. */
export interface RuleFinding {
  code: ExitCode
  /** One line with the numbers and the rule itself. */
  text: string
  /** Whether the data neither prove nor exclude what the rule forbids. @default false */
  isOpen?: true
}

/** The only place that turns a comparison into words and exit codes, so that the two never disagree. Bounds decide, never the mean. */
export function judgeComparison(
  { before, after, comparison }: { before: EvaluationRecord; after: EvaluationRecord; comparison: Comparison },
  rules: ComparisonRules,
): RuleFinding[] {
  const { interval } = comparison.difference
  if (interval === null) return [{ code: EXIT.infra, text: 'nothing to compare: no task was scored on both sides' }]
  const poor = [before, after].find((side) => gradedShare(side) < rules.minGraded)
  if (poor !== undefined) {
    const share = `${(gradedShare(poor) * 100).toFixed(1)} % < ${(rules.minGraded * 100).toFixed(1)} %`
    return [{ code: EXIT.infra, text: `too little was graded in ${poor.name} of ${poor.run}: ${share}; no verdict` }]
  }
  const facts = `difference ${show(comparison.difference.mean)}, ${Number((comparison.level * 100).toFixed(2))} % interval ${show(interval.low)} to ${show(interval.high)}`
  return [judgeRegression(interval, rules, facts), judgeGain(interval, rules, facts)].filter((one) => one !== null)
}

type Bounds = { low: number; high: number }

function judgeRegression(
  { low, high }: Bounds,
  { maxRegression, strict }: ComparisonRules,
  facts: string,
): RuleFinding | null {
  if (maxRegression === null) return null
  const limit = -maxRegression
  const decision = decideRegression({ low, high }, maxRegression)
  if (decision === 'proven') {
    return {
      code: EXIT.regression,
      text: `regression proven: delta.upper ${show(high)} < ${show(limit)} (${facts})`,
    }
  }
  if (decision === 'excluded') {
    return { code: EXIT.ok, text: `no such regression: delta.lower ${show(low)} ≥ ${show(limit)} (${facts})` }
  }
  return {
    code: strict ? EXIT.threshold : EXIT.ok,
    isOpen: true,
    text: `cannot exclude a regression of more than ${maxRegression}: delta.lower ${show(low)} < ${show(limit)} (${facts}${strict ? '; strict' : ''})`,
  }
}

function judgeGain({ low }: Bounds, { minDifference }: ComparisonRules, facts: string): RuleFinding | null {
  if (minDifference === null) return null
  const met = low >= minDifference
  return {
    code: met ? EXIT.ok : EXIT.threshold,
    text: `threshold ${met ? 'met' : 'missed'}: delta.lower ${show(low)} ${met ? '≥' : '<'} ${minDifference} (${facts})`,
  }
}

function show(value: number): string {
  return `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(3)}`
}
