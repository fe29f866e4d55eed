/** Evaluations that repeat on a clock: how one stands against the one before it, and what the trend shows of it. */
import type { StoredInterval } from './evaluations.types.ts'

/** `not-worse`: a loss beyond the margin is excluded, and no gain is proven. */
export type NightOutcome = 'regressed' | 'improved' | 'not-worse' | 'cannot-exclude' | 'not-compared'

/** An evaluation held against an earlier one, over the tasks of both sides whose rows are equal. */
export interface NightVerdict {
  /** `last`: the same evaluation of the series before this one; `baseline`: one that the recipe names. */
  against: 'last' | 'baseline'
  /** The other side; null where there is none. */
  before: { run: string; name: string; policy: string } | null
  outcome: NightOutcome
  /** Both numbers, the rule, and which tasks were compared. */
  statement: string
  /** After − before; null where nothing was compared. */
  difference: { mean: number; low: number; high: number } | null
  tasks: ComparedTaskCounts
}

export interface ComparedTaskCounts {
  /** Scored on both sides, with equal rows. */
  common: number
  onlyBefore: number
  onlyAfter: number
  /** The same id and another row: another task. */
  otherRows: number
}

/** What a page of trends shows of one evaluation. */
export interface NightPoint {
  series: string
  run: string
  name: string
  /** ISO time at which the run began. */
  at: string
  policy: string
  /** `<data set>/<split>` where the suite's origin is known, else the suite's hash in short. */
  split: string
  /** Commit of the data set; null where it has none. */
  revision: string | null
  tasks: number
  attempts: number
  passAt1: number
  interval: StoredInterval | null
  /** Share of the attempts that were asked for which gave no verdict. */
  lost: number
  turns: number
  sampledTokens: number | null
  /** Money of one attempt, with its currency; null without prices. */
  cost: { mean: number; currency: string } | null
  outcomes: { against: NightVerdict['against']; outcome: NightOutcome }[]
}

/** Kept with the run and, as `night`, in its series. */
export interface NightRecord {
  schema: 'longhaul.night/1'
  /** Nights of one series compare with each other: the name of a schedule, else of a recipe. */
  series: string
  /** Which evaluation of a night it is, whatever the night: `main`, `suite:<name>`, or `policy:<version>` beside the newest. */
  role: string
  verdicts: NightVerdict[]
  /** Ids of the tasks that were compared with the last night, at most 1,000. */
  common: string[]
  night: NightPoint
}
