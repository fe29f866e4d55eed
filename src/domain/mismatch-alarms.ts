import type { AlarmLimits, TrainingAlarm } from '../contracts/training.types.ts'

type Bound = { metric: string; limit: (limits: AlarmLimits) => number | null; side: 'above' | 'below'; absolute?: true }

/** By the trainer's own metric names. */
const BOUNDS: readonly Bound[] = [
  { metric: 'k1', limit: ({ kl }) => kl, side: 'above', absolute: true },
  { metric: 'k3', limit: ({ kl }) => kl, side: 'above', absolute: true },
  { metric: 'abs_dlogp_max', limit: ({ logprobGap }) => logprobGap, side: 'above' },
  { metric: 'is_mean', limit: ({ importanceMean }) => importanceMean[0], side: 'below' },
  { metric: 'is_mean', limit: ({ importanceMean }) => importanceMean[1], side: 'above' },
  { metric: 'is_std', limit: ({ importanceStd }) => importanceStd, side: 'above' },
  { metric: 'ess', limit: ({ effectiveSamples }) => effectiveSamples, side: 'below' },
  { metric: 'chi2', limit: ({ chi2 }) => chi2, side: 'above' },
  { metric: 'tis_capped', limit: ({ capped }) => capped, side: 'above' },
  { metric: 'masked_frac', limit: ({ masked }) => masked, side: 'above' },
]

/**
 * Figures of a job's optimizer steps that say that sampler and trainer have drifted apart. A figure that a step does not have
 * raises nothing; one that is no finite number does.
 */
export function findAlarms(steps: readonly Record<string, unknown>[], limits: AlarmLimits): TrainingAlarm[] {
  return steps.flatMap((metrics, index) =>
    BOUNDS.flatMap(({ metric, limit, side, absolute }): TrainingAlarm[] => {
      const found = metrics[metric]
      const bound = limit(limits)
      if (found === undefined || bound === null) return []
      const value = typeof found === 'number' ? found : Number.NaN
      const measured = absolute === true ? Math.abs(value) : value
      const isFine = side === 'above' ? measured <= bound : measured >= bound
      return isFine
        ? []
        : [{ step: index + 1, metric, value: Number.isFinite(value) ? value : null, limit: bound, side }]
    }),
  )
}

/** One line for people: the first alarm and how many more there are. */
export function sayAlarms(alarms: readonly TrainingAlarm[]): string {
  const [first, ...others] = alarms
  if (first === undefined) return 'no alarm'
  const { metric, value, limit, side, step } = first
  const shown = value === null ? 'no finite number' : Number(value.toPrecision(3))
  const more = others.length === 0 ? '' : `, and ${others.length} more`
  return `${metric} is ${shown}, ${side} ${limit}, at optimizer step ${step}${more}`
}
