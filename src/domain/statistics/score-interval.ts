import {
  type BootstrapInput,
  bootstrapInterval,
  type ClusteredOutcomes,
  type Interval,
  type PairedOutcomes,
  pairedBootstrapInterval,
} from './bootstrap.ts'
import { countResolved, isWithoutSpread, mean, standardError } from './statistics.ts'
import { exactInterval } from './proportions.ts'
import { studentQuantile } from './special-functions.ts'

export interface ScoreInterval {
  interval: Interval
  /** The interval from resampling alone. */
  bootstrap: Interval
}

/**
 * Returns the interval that reports show and thresholds read. A percentile bootstrap alone is too narrow for few tasks, and has no
 * width if every task went the same way: three of three would "prove" a score of 1. It is therefore widened to an interval that is
 * valid for small samples: the exact binomial interval for one attempt per task, Student's t over tasks for several.
 * @returns null for no tasks
 */
export function scoreInterval({ level = 0.95, ...input }: BootstrapInput<ClusteredOutcomes>): ScoreInterval | null {
  const bootstrap = bootstrapInterval({ ...input, level })
  if (bootstrap === null) return null
  const { tasks } = input
  const single = tasks.every(({ outcomes }) => outcomes.length === 1)
  const small = single
    ? exactInterval({
        successes: tasks.filter(({ outcomes }) => outcomes[0] === 1).length,
        trials: tasks.length,
        level,
      })
    : meanInterval({ values: tasks.map(({ outcomes }) => mean(outcomes)), level, range: { low: 0, high: 1 } })
  return { interval: widest(bootstrap, small), bootstrap }
}

/**
 * Returns the interval of after − before. With one attempt per side it is widened to the exact interval of the split of discordant
 * tasks, so that it never proves what McNemar's exact test does not.
 * @returns null for no tasks
 */
export function differenceInterval({ level = 0.95, ...input }: BootstrapInput<PairedOutcomes>): Interval | null {
  const bootstrap = pairedBootstrapInterval({ ...input, level })
  if (bootstrap === null) return null
  const { tasks } = input
  const single = tasks.every(({ before, after }) => before.length === 1 && after.length === 1)
  const values = tasks.map(({ before, after }) => mean(after) - mean(before))
  const discordant = values.filter((value) => value !== 0).length
  const small =
    single && discordant > 0
      ? splitInterval({ tasks, discordant, level })
      : meanInterval({ values, level, range: { low: -1, high: 1 } })
  return widest(bootstrap, small)
}

/** Given how many tasks differ, the number on each side is binomial. */
function splitInterval({
  tasks,
  discordant,
  level,
}: {
  tasks: readonly PairedOutcomes[]
  discordant: number
  level: number
}): Interval {
  const gained = tasks.filter(({ before, after }) => countResolved(after) > countResolved(before)).length
  const share = exactInterval({ successes: gained, trials: discordant, level })
  const scale = discordant / tasks.length
  return { low: scale * (2 * share.low - 1), high: scale * (2 * share.high - 1) }
}

/**
 * Student's t for a mean of independent values. Without any spread t has no width; the interval then leaves room for the share of
 * unlike tasks that a sample of this size may well miss, (1 − share)^n = (1 − level) / 2.
 * @param range possible range of a value; null for unbounded, with no width without spread
 */
export function meanInterval({
  values,
  level,
  range,
}: {
  values: readonly number[]
  level: number
  range: Interval | null
}): Interval {
  const centre = mean(values)
  const tail = (1 - level) / 2
  if (isWithoutSpread(values)) {
    const missed = 1 - tail ** (1 / Math.max(1, values.length))
    const { low, high } = range ?? { low: centre, high: centre }
    return { low: centre - missed * (centre - low), high: centre + missed * (high - centre) }
  }
  const half = studentQuantile({ probability: 1 - tail, freedom: values.length - 1 }) * standardError(values)
  const { low, high } = range ?? { low: -Infinity, high: Infinity }
  return { low: Math.max(low, centre - half), high: Math.min(high, centre + half) }
}

function widest(a: Interval, b: Interval): Interval {
  return { low: Math.min(a.low, b.low), high: Math.max(a.high, b.high) }
}
