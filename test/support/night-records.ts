/** Records of nights, like those of `recordNight`. */
import type { NightOutcome, NightPoint, NightRecord } from '../../src/contracts/nights.types.ts'

export interface NightRecordInput extends Partial<Omit<NightPoint, 'run' | 'at' | 'policy'>> {
  run: string
  /** ISO time. */
  at: string
  policy: string
  /** @default "main" */
  role?: string
  /** Outcome against the last night. @default none */
  outcome?: NightOutcome
  /** Run of the last night. */
  before?: string
}

export function nightRecord({ role = 'main', outcome, before, ...point }: NightRecordInput): NightRecord {
  const night: NightPoint = {
    series: 'nightly',
    name: 'nightly',
    split: 'o/d/2026_04',
    revision: 'a'.repeat(40),
    tasks: 20,
    attempts: 5,
    passAt1: 0.5,
    interval: { low: 0.4, high: 0.6 },
    lost: 0.05,
    turns: 12.5,
    sampledTokens: 2_000,
    cost: null,
    outcomes: outcome === undefined ? [] : [{ against: 'last', outcome }],
    ...point,
  }
  return {
    schema: 'longhaul.night/1',
    series: night.series,
    role,
    common: [],
    night,
    verdicts:
      outcome === undefined
        ? []
        : [
            {
              against: 'last',
              before: before === undefined ? null : { run: before, name: 'nightly', policy: 'v000001-aaaaaaaa' },
              outcome,
              statement: `pass@1 0.75 → ${night.passAt1}: ${outcome}`,
              difference: { mean: -0.25, low: -0.35, high: -0.15 },
              tasks: { common: 20, onlyBefore: 0, onlyAfter: 0, otherRows: 0 },
            },
          ],
  }
}
