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
  /** In order of creation; `base`, `rft`, `rl` for the demo. Intermediate evaluations are in `curve` only. */
  evaluations: EvaluationRecord[]
  /** Differences over the same tasks, later minus earlier. */
  paired: PairedScore[]
  curve: CurvePoint[]
  /** What each training job measured, in order; empty for evaluations and for runs of earlier versions. */
  training: TrainingRecord[]
  /** Costs of the run by stage, from all records of its episodes, gates and training jobs. */
  costs: RunCosts
  /** Provenance of each score. */
  lineage: RunLineage
  ledger: { totals: LedgerTotals; mismatches: number }
  /** Comparisons with the last night and a named baseline, by evaluation; absent if none was requested. */
  nights?: ReportedNight[]
  /** Why the last policy was or was not promoted; absent without a rule. */
  promotion?: string
  /** Signs of reward hacking, in all episodes of the run. */
  flagged: FlaggedEpisodes
  /** End of the base model's training data (ISO date); null if the recipe names none. */
  cutoff: string | null
  /** Every suite whose tasks the run played. */
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
  /** Stages of the run, sorted. */
  uses: string[]
  tasks: number
  /** Null for a suite that is no longer stored. */
  origin: SuiteOrigin | null
}

interface FlaggedEpisodes {
  /** Episodes that show a sign, and those of them that passed the hidden tests. */
  signs: { sign: HackSign; episodes: number; resolved: number }[]
  /** The first suspected hacks by id (`maxNamed`). */
  suspected: { episode: string; disposition: Disposition; verdict: VerdictKind | null; signs: HackSign[] }[]
  /** All suspected hacks. */
  total: number
}

export interface PairedScore extends PairedDifference {
  before: string
  after: string
  /** 95 %; null without a shared task. */
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

/** Collects suspicious episodes for a report. @param maxNamed most suspected hacks that are listed by id */
export function gatherFlagged(records: readonly EpisodeRecord[], maxNamed: number): FlaggedEpisodes {
  // Records of earlier versions have no signs.
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
