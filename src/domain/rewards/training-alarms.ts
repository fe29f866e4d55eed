import type { AlarmLimits, TrainingAlarm } from '../../contracts/training.types.ts'

export interface FindAlarmsInput {
  /** One object per optimizer step, with the trainer's own metric names. */
  steps: readonly Record<string, unknown>[]
  limits: AlarmLimits
  kind: 'rft' | 'dapo'
  /** Entropy of the stage's first optimizer step, in nats per token; null if unknown. */
  firstEntropy: number | null
}

type Basis = Pick<FindAlarmsInput, 'limits' | 'kind' | 'firstEntropy'>
/** An undefined limit belongs to a recipe that was stored before the limit existed. */
type Bound = {
  metric: string
  limit: (basis: Basis) => number | null | undefined
  side: 'above' | 'below'
  absolute?: true
}

const BOUNDS: readonly Bound[] = [
  // Gap between sampler and trainer, which fine-tuning steps do not have.
  { metric: 'k1', limit: ({ limits }) => limits.kl, side: 'above', absolute: true },
  { metric: 'k3', limit: ({ limits }) => limits.kl, side: 'above', absolute: true },
  { metric: 'abs_dlogp_max', limit: ({ limits }) => limits.logprobGap, side: 'above' },
  { metric: 'is_mean', limit: ({ limits }) => limits.importanceMean[0], side: 'below' },
  { metric: 'is_mean', limit: ({ limits }) => limits.importanceMean[1], side: 'above' },
  { metric: 'is_std', limit: ({ limits }) => limits.importanceStd, side: 'above' },
  { metric: 'ess', limit: ({ limits }) => limits.effectiveSamples, side: 'below' },
  { metric: 'chi2', limit: ({ limits }) => limits.chi2, side: 'above' },
  { metric: 'tis_capped', limit: ({ limits }) => limits.capped, side: 'above' },
  { metric: 'masked_frac', limit: ({ limits }) => limits.masked, side: 'above' },
  // State of the training itself, in every stage.
  { metric: 'grad_norm', limit: ({ limits }) => limits.gradNorm, side: 'above' },
  { metric: 'entropy', limit: ({ limits }) => limits.entropy, side: 'below' },
  { metric: 'entropy', limit: shareOfFirstEntropy, side: 'below' },
  // The loss of reinforcement is a surrogate around zero, so its size says nothing.
  { metric: 'loss', limit: ({ limits, kind }) => (kind === 'rft' ? limits.fineTuningLoss : null), side: 'above' },
]

const DIVERGED: Bound = { metric: 'k1', limit: ({ limits }) => limits.divergedKl, side: 'above', absolute: true }

function shareOfFirstEntropy({ limits: { entropyShare }, firstEntropy }: Basis): number | null {
  return entropyShare === null || entropyShare === undefined || firstEntropy === null
    ? null
    : entropyShare * firstEntropy
}

/**
 * Finds figures of a job's optimizer steps outside their limits: sampler and trainer have drifted apart, or the training itself is
 * unstable. A missing figure raises no alarm; a non-finite number does.
 */
export function findAlarms({ steps, ...basis }: FindAlarmsInput): TrainingAlarm[] {
  return steps.flatMap((metrics, index) => BOUNDS.flatMap((bound) => judge(bound, metrics, index, basis)))
}

/**
 * Returns the first step at which sampler and trainer are no longer the same model, so that the trained policy must not be used. Null
 * if there is none.
 */
export function findDivergence({ steps, ...basis }: FindAlarmsInput): TrainingAlarm | null {
  return steps.flatMap((metrics, index) => judge(DIVERGED, metrics, index, basis))[0] ?? null
}

function judge(bound: Bound, metrics: Record<string, unknown>, index: number, basis: Basis): TrainingAlarm[] {
  const { metric, side, absolute } = bound
  const found = metrics[metric]
  const limit = bound.limit(basis) ?? null
  if (found === undefined || limit === null) return []
  const value = typeof found === 'number' ? found : Number.NaN
  const measured = absolute === true ? Math.abs(value) : value
  const isFine = side === 'above' ? measured <= limit : measured >= limit
  return isFine ? [] : [{ step: index + 1, metric, value: Number.isFinite(value) ? value : null, limit, side }]
}

/** Formats the first alarm and the number of further ones in one line. */
export function formatAlarms(alarms: readonly TrainingAlarm[]): string {
  const [first, ...others] = alarms
  if (first === undefined) return 'no alarm'
  const { metric, value, limit, side, step } = first
  const shown = value === null ? 'no finite number' : Number(value.toPrecision(3))
  const more = others.length === 0 ? '' : `, and ${others.length} more`
  return `${metric} is ${shown}, ${side} ${Number(limit.toPrecision(3))}, at optimizer step ${step}${more}`
}
