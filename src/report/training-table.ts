import { number, type Table, text } from './tables.ts'
import type { ReportData } from './report-data.ts'
import { formatAlarms } from '../domain/rewards/training-alarms.ts'

/** Gap between sampler and trainer, a row per training job: mostly the worst of its optimizer steps. */
export function trainingTable({ training }: ReportData): Table {
  return {
    title: 'Training jobs: gap between sampler and trainer',
    columns: [
      text('job'),
      number('steps'),
      number('loss'),
      number('gradient norm'),
      number('entropy'),
      number('k3 KL'),
      number('max |Δ log p|'),
      number('weight mean'),
      number('weight max'),
      number('ESS'),
      number('clipped'),
      number('masked'),
      text('alarms'),
    ],
    rows: training.map(({ stage, iteration, slice, steps, alarms }) => [
      `${stage} ${iteration}${slice === 0 ? '' : `.${slice}`}`,
      String(steps.length),
      last(steps, 'loss'),
      worst(steps, 'grad_norm', Math.max),
      last(steps, 'entropy'),
      worst(steps, 'k3', Math.max),
      worst(steps, 'abs_dlogp_max', Math.max),
      last(steps, 'is_mean'),
      worst(steps, 'is_max', Math.max),
      worst(steps, 'ess', Math.min),
      worst(steps.map(clipped), 'clip', Math.max),
      worst(steps, 'masked_frac', Math.max),
      alarms.length === 0 ? '' : formatAlarms(alarms),
    ]),
    notes: [
      'The worst optimizer step of each job; loss, entropy and mean weight of the last. An alarm pauses the run before its next iteration unless the recipe says otherwise (trainer.alarms).',
    ],
  }
}

type Steps = readonly Record<string, unknown>[]

function values(steps: Steps, metric: string): number[] {
  return steps.map((step) => step[metric]).filter((value) => typeof value === 'number')
}

function worst(steps: Steps, metric: string, pick: (...values: number[]) => number): string {
  const found = values(steps, metric)
  return found.length === 0 ? '–' : show(pick(...found))
}

function last(steps: Steps, metric: string): string {
  const found = values(steps, metric).at(-1)
  return found === undefined ? '–' : show(found)
}

function clipped(step: Record<string, unknown>): Record<string, unknown> {
  const { clip_low: low, clip_high: high } = step
  return typeof low === 'number' && typeof high === 'number' ? { clip: low + high } : {}
}

function show(value: number): string {
  return value === 0 ? '0' : value.toPrecision(3)
}
