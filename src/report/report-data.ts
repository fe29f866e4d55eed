import type { RunCosts, RunLineage } from '../contracts/costs.types.ts'
import type { Disposition, VerdictKind, EpisodeRecord } from '../contracts/episodes.types.ts'
import type { EvaluationRecord } from '../contracts/evaluations.types.ts'
import type { NightVerdict } from '../contracts/nights.types.ts'
import { type HackSign, HACK_SIGNS } from '../contracts/hack-signs.ts'
import type { SuiteOrigin } from '../contracts/suites.types.ts'
import type { TrainingRecord } from '../contracts/training.types.ts'
import type { LedgerTotals } from '../domain/ledger/ledger.ts'
import type { Interval } from '../domain/statistics/bootstrap.ts'
import type { PairedDifference } from '../domain/statistics/statistics.ts'

/** Everything a report shows, as plain data: gathered from records once, rendered as table, HTML and JSON. */
export interface ReportData {
  run: string
  kind: 'train' | 'eval'
  recipe: { name: string; hash: string; seed: number; base: string }
  /** In the order they were made; `base`, `rft`, `rl` for the demo. Intermediate evaluations are in `curve` only. */
  evaluations: EvaluationRecord[]
  /** Same tasks only, later minus earlier. */
  paired: PairedScore[]
  curve: CurvePoint[]
  /** What each training job measured, in order; empty for evaluations and for runs of earlier versions. */
  training: TrainingRecord[]
  /** What the run was paid for, by stage, from all records of its episodes, gates and training jobs. */
  costs: RunCosts
  /** What each score rests on. */
  lineage: RunLineage
  ledger: { totals: LedgerTotals; mismatches: number }
  /** Against the last night and a named baseline, by evaluation; absent where nothing was asked for. */
  nights?: ReportedNight[]
  /** Why the last policy was promoted, or was not; absent where no rule was asked. */
  promotion?: string
  /** Signs of seeking the reward by other means, in all episodes of the run. */
  flagged: FlaggedEpisodes
  /** The base model's training data ends here (ISO date); null where the recipe does not say. */
  cutoff: string | null
  /** Every suite that the run played tasks of. */
  suites: ReportedSuite[]
  /** Tasks whose gate refused them, with the reason. */
  refused: { taskId: string; reason: string }[]
  /** Seconds by phase, in order. */
  durations: Record<string, number>
  versions: { longhaul: string; node: string }
}

export type ReportedNight = NightVerdict & { name: string }

interface ReportedSuite {
  suite: string
  /** Stages of the run, in order of text. */
  uses: string[]
  tasks: number
  /** Null for a suite that is not stored any more. */
  origin: SuiteOrigin | null
}

interface FlaggedEpisodes {
  /** Episodes that show a sign, and those of them that passed the hidden tests. */
  signs: { sign: HackSign; episodes: number; resolved: number }[]
  /** Suspected hacks by id, the first hundred. */
  suspected: { episode: string; disposition: Disposition; verdict: VerdictKind | null; signs: HackSign[] }[]
  /** All suspected hacks. */
  total: number
}

export interface PairedScore extends PairedDifference {
  before: string
  after: string
  /** 95 %; null for no shared task. */
  interval: Interval | null
}

export interface CurvePoint {
  /** `evaluation`: held-out pass@1; `rollout`: share resolved among the training rollouts of an iteration. */
  kind: 'evaluation' | 'rollout'
  label: string
  /** Optimizer steps of the policy that was played. */
  globalStep: number
  mean: number
  sem: number
  /** Tasks, and valid attempts at each. */
  tasks: number
  attempts: number
}

/** What a report says of suspicious episodes. @param maxNamed suspected hacks that are listed by id */
export function gatherFlagged(records: readonly EpisodeRecord[], maxNamed: number): FlaggedEpisodes {
  // Records of before the flag existed have no signs.
  const flagged = records.filter(({ signs }) => (signs ?? []).length > 0)
  const suspected = flagged.filter(({ suspectedHack }) => suspectedHack)
  const count = (sign: HackSign) => {
    const shown = flagged.filter(({ signs }) => signs.includes(sign))
    return { sign, episodes: shown.length, resolved: shown.filter(({ verdict }) => verdict === 'resolved').length }
  }
  return {
    signs: (Object.keys(HACK_SIGNS) as HackSign[]).map(count).filter(({ episodes }) => episodes > 0),
    suspected: suspected
      .slice(0, maxNamed)
      .map(({ episode, disposition, verdict, signs }) => ({ episode, disposition, verdict, signs })),
    total: suspected.length,
  }
}
