import type { EvaluationRecord } from '../../contracts/evaluations.types.ts'
import { contaminationLine } from '../../report/contamination-table.ts'
import { formatOrigin } from '../../report/suite-table.ts'

/**
 * Lines beside a score: its uncertainty, the official count, what was paid, what the model may have read, the cost.
 * @param cutoff end of the model's training data
 */
export function describeEvaluation(record: EvaluationRecord, cutoff: string | null): string[] {
  const { origin } = record
  return [
    describeDoubt(record),
    ...describeAudit(record),
    ...(origin === undefined ? [] : [formatOrigin(origin)]),
    ...(cutoff === null ? [] : [contaminationLine(record, cutoff)]),
    ...describeCost(record),
  ]
}

function describeDoubt({ interval, semOver, official, tasks }: EvaluationRecord): string {
  const lost = tasks.reduce((sum, { lost }) => sum + lost, 0)
  const bounds = interval === null ? '' : `95 % interval ${interval.low.toFixed(3)} to ${interval.high.toFixed(3)}; `
  return `${bounds}SEM over ${semOver}; officially ${official.passAt1.toFixed(3)} ± ${official.sem.toFixed(3)} with ${lost} of ${official.tasks * official.attempts} attempts lost`
}

/** Empty for evaluations of earlier versions. */
function describeAudit({ audited }: EvaluationRecord): string[] {
  if (audited === undefined) return []
  const { resolved, paid, unaudited, differences } = audited
  const counts = [...Map.groupBy(differences, ({ because }) => because)].map(([why, found]) => `${found.length} ${why}`)
  const rest = counts.length === 0 ? '' : `; not paid: ${counts.join(', ')}`
  const without = unaudited === 0 ? '' : `, ${unaudited} of them without an audit`
  return [`audited: ${paid} of ${resolved} resolved attempts are paid${without}${rest}`]
}

/** Empty if the recipe has no prices. */
function describeCost({ cost }: EvaluationRecord): string[] {
  if (cost === undefined) return []
  const { attempt, graded, lost, unknown, prices } = cost
  const mean = attempt === null ? '' : `, ${attempt.mean.toFixed(4)} ± ${attempt.sem.toFixed(4)} an attempt`
  const uncounted = unknown === 0 ? '' : `; ${unknown} attempts were not counted`
  return [`cost ${(graded + lost).toFixed(4)} ${prices.currency}${mean}${uncounted}`]
}
