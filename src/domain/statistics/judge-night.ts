/** Compares one evaluation with an earlier one by the rules of `longhaul compare`, for a workflow that decides without an operator. */
import type { PromotionRecipe } from '../../contracts/recipe.types.ts'
import type { EvaluationRecord } from '../../contracts/evaluations.types.ts'
import type { ComparedTaskCounts, NightOutcome, NightVerdict } from '../../contracts/nights.types.ts'
import { checkComparability, gradedShare } from './comparability.ts'
import { compareEvaluations } from './comparison.ts'

export interface NightRules {
  /** Permitted loss of pass@1. */
  margin: number
  /** Share of such intervals that contain the true difference. */
  confidence: number
  /** Minimum share of graded attempts on either side; below it nothing is judged. */
  minGraded: number
}

export interface JudgedNight extends Pick<NightVerdict, 'outcome' | 'statement' | 'difference' | 'tasks'> {
  /** Ids of the tasks that were compared, in order. */
  common: string[]
}

/** Compares an interval with a margin: a regression is proven, excluded, or neither. This is the only place with that rule. */
export function decideRegression(
  { low, high }: { low: number; high: number },
  margin: number,
): 'proven' | 'excluded' | 'open' {
  if (high < -margin) return 'proven'
  return low >= -margin ? 'excluded' : 'open'
}

/** Tasks of only one side, and tasks whose rows differ, are left out and counted, because a newer monthly split may have been
 *  published between two nights. */
export function judgeNight(before: EvaluationRecord, after: EvaluationRecord, rules: NightRules): JudgedNight {
  const { otherRows, onlyBefore, onlyAfter, warnings } = checkComparability(before, after)
  const changed = new Set(otherRows)
  const comparison = compareEvaluations({
    before: before.tasks,
    after: after.tasks.filter(({ taskId }) => !changed.has(taskId)),
    level: rules.confidence,
  })
  const unscored = new Set(comparison.unscored)
  const inBefore = new Set(before.tasks.map(({ taskId }) => taskId))
  const common = after.tasks
    .map(({ taskId }) => taskId)
    .filter((taskId) => inBefore.has(taskId) && !changed.has(taskId) && !unscored.has(taskId))
  const tasks = {
    common: common.length,
    onlyBefore: onlyBefore.length,
    onlyAfter: onlyAfter.length,
    otherRows: otherRows.length,
  }
  const none = (why: string): JudgedNight => ({
    outcome: 'not-compared',
    statement: `${why}; ${describeTasks(tasks)}`,
    difference: null,
    tasks,
    common,
  })
  const { interval, mean } = comparison.difference
  if (interval === null) return none('nothing to compare: no task was scored on both sides')
  const poor = [before, after].find((side) => gradedShare(side) < rules.minGraded)
  if (poor !== undefined) {
    return none(
      `too little was graded in ${poor.name} of ${poor.run}: ${percent(gradedShare(poor))} < ${percent(rules.minGraded)}`,
    )
  }
  const outcome = outcomeOf(interval, rules.margin)
  const facts = `difference ${signed(mean)}, ${percent(rules.confidence)} interval ${signed(interval.low)} to ${signed(interval.high)}`
  const others = warnings.filter((warning) => !warning.startsWith('suite:'))
  const settings = others.length === 0 ? '' : `; other settings: ${others.slice(0, 5).join(', ')}`
  return {
    outcome,
    statement: `${RULES[outcome](interval, rules.margin)} (${facts}; ${describeTasks(tasks)}${settings})`,
    difference: { mean, ...interval },
    tasks,
    common,
  }
}

function outcomeOf(interval: { low: number; high: number }, margin: number): Exclude<NightOutcome, 'not-compared'> {
  if (interval.low > 0) return 'improved'
  switch (decideRegression(interval, margin)) {
    case 'proven':
      return 'regressed'
    case 'excluded':
      return 'not-worse'
    case 'open':
      return 'cannot-exclude'
  }
}

const RULES: Record<
  Exclude<NightOutcome, 'not-compared'>,
  (bounds: { low: number; high: number }, margin: number) => string
> = {
  regressed: ({ high }, margin) => `regressed: delta.upper ${signed(high)} < ${signed(-margin)}`,
  improved: ({ low }) => `improved: delta.lower ${signed(low)} > 0`,
  'not-worse': ({ low }, margin) => `not worse: delta.lower ${signed(low)} ≥ ${signed(-margin)}`,
  'cannot-exclude': ({ low }, margin) =>
    `cannot exclude a regression of more than ${margin}: delta.lower ${signed(low)} < ${signed(-margin)}`,
}

function describeTasks({ common, onlyBefore, onlyAfter, otherRows }: ComparedTaskCounts): string {
  const left = [
    ...(onlyBefore === 0 ? [] : [`${onlyBefore} only before`]),
    ...(onlyAfter === 0 ? [] : [`${onlyAfter} only after`]),
    ...(otherRows === 0 ? [] : [`${otherRows} with another row`]),
  ]
  return `${common} common tasks${left.length === 0 ? '' : `, left out: ${left.join(', ')}`}`
}

function signed(value: number): string {
  return `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(3)}`
}

function percent(share: number): string {
  return `${Number((share * 100).toFixed(2))} %`
}

/** Why a run's last policy was or was not promoted. */
export interface PromotionDecision {
  schema: 'longhaul.promotion-decision/1'
  run: string
  policy: string
  gate: PromotionRecipe['gate']
  promoted: boolean
  /** The evaluation it was compared with; null if there was none. */
  against: { run: string; name: string; policy: string } | null
  judged: JudgedNight | null
  why: string
}
