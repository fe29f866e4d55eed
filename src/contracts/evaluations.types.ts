import type { AuditReason } from './audit.types.ts'
import type { Disposition, EpisodeLimits, SamplingOptions, VerdictKind } from './episodes.types.ts'
import type { NightVerdict } from './nights.types.ts'
import type { PriceRecipe } from './recipe.types.ts'
import type { SuiteOrigin } from './suites.types.ts'
import type { StageScore } from './workflows.types.ts'

/** All attempts of one policy at one task. Lists run over the valid attempts, in attempt order. */
export interface EvaluatedTask {
  taskId: string
  /** The cluster of the bootstrap: tasks of one repository are alike. */
  repo: string
  /** Of the data set's row: the same id with another row is another task. */
  rowHash: string
  /** When the data set says the task came into being (ISO time); null where it does not. */
  createdAt: string | null
  /** 1 = resolved. */
  outcomes: (0 | 1)[]
  /** Attempts that were asked for and gave no verdict, after their replacements. */
  lost: number
  /** Attempts that were lost and played again under another index, which the official score counts too; absent where none was. */
  replaced?: number
  /** As `outcomes`, 1 = paid; absent in evaluations of earlier versions. */
  audited?: (0 | 1)[]
  turns: number[]
  /** Null where a chat endpoint did not count. */
  sampledTokens: (number | null)[]
  /** First prompt to last observation, waits included; null where the records do not tell. */
  wallSeconds: (number | null)[]
  /** Read over all samples of an attempt, cached ones too; absent where no record tells. */
  promptTokens?: (number | null)[]
  cachedTokens?: (number | null)[]
  /** Money; absent where the recipe gives no price. */
  cost?: (number | null)[]
}

/** Money, in the currency of the recipe's prices. */
export interface EvaluationCost {
  prices: PriceRecipe
  /** Over graded attempts; null where no attempt's tokens were counted. */
  attempt: StoredMean | null
  /** Graded attempts, and those that gave no outcome: both were paid for. */
  graded: number
  lost: number
  /** Attempts without token counts: the sums leave them out. */
  unknown: number
}

/** Mean over tasks with its standard error, clustered by task. */
export interface StoredMean {
  mean: number
  sem: number
  tasks: number
}

export interface StoredInterval {
  low: number
  high: number
}

/** What has to be equal for two evaluations to compare policies and nothing else. */
export interface EvaluationConditions {
  scaffold: string
  demonstration: boolean
  sampling: SamplingOptions
  limits: EpisodeLimits
  /** Every grading profile that gave a verdict. */
  gradingProfiles: string[]
}

/** The score with the mark *audited*: 1 = resolved, no voiding sign, and an audit agrees (or none can be had and the recipe allows that). */
export interface AuditedScore {
  passAt1: number
  sem: number
  interval: StoredInterval | null
  tasks: number
  attempts: number
  /** Attempts that are resolved officially, and those of them that are paid. */
  resolved: number
  paid: number
  /** Paid although no audit looked at them: the recipe allows it. */
  unaudited: number
  /** Resolved officially and not paid, in order of episodes. */
  differences: AuditDifference[]
}

export interface AuditDifference {
  taskId: string
  episode: string
  because: 'suspected-hack' | 'audit-void' | 'unaudited'
  /** Of a void audit, and its line for people. */
  reasons: AuditReason[]
  detail: string | null
}

/** One attempt in short, as its own record says it. */
export interface AttemptSummary {
  taskId: string
  index: number
  disposition: Disposition
  verdict: VerdictKind | null
  /** Beside the verdict, such as `tests-failed`. */
  reason: string | null
  /** Failure code of an attempt that infrastructure took. */
  failure: string | null
  suspectedHack: boolean
  turns: number
}

/** An evaluation with what stands beside it, for readers that have no artifact store. */
export interface EvaluationDocument {
  evaluation: EvaluationRecord
  /** Against the last night and a named baseline, as the workflow judged; absent where nothing was asked for. */
  verdicts?: NightVerdict[]
  /** Of the same run, on the recipe's further suites. */
  further: EvaluationRecord[]
  /** In the order of tasks and attempts. */
  attempts: AttemptSummary[]
  /** Tasks of the suite that did not pass their gate and were not played. */
  refused: { taskId: string; reason: string }[]
  /** Date up to which the model has read, as the recipe says it; null where it does not. */
  cutoff: string | null
}

/** One evaluation with what is needed to recompute, pair and doubt its number. Derived from the episodes' records alone. */
export interface EvaluationRecord {
  schema: 'longhaul.evaluation/2'
  run: string
  name: string
  stage: string
  suite: string
  /** Data set, revision and filters of the suite; absent where it was stored by an earlier version. */
  origin?: SuiteOrigin
  /** Over valid attempts: what infrastructure lost counts in no mean. */
  score: StageScore
  /** What `score.sem` is taken over: `runs` with an equal number of attempts ≥ 2 at every task, else `tasks`. */
  semOver: 'runs' | 'tasks'
  /** Standard error clustered by task. */
  taskSem: number
  /** 95 % interval of pass@1: see docs/statistics.md. */
  interval: StoredInterval | null
  /** The cluster bootstrap inside it. */
  bootstrap: { low: number; high: number; draws: number; seed: number } | null
  /** As official harnesses count: every attempt that was asked for, lost and replaced ones as unresolved. */
  official: { passAt1: number; sem: number; interval: StoredInterval | null; tasks: number; attempts: number }
  /** As rewards are paid, over the same attempts as `score`; absent in evaluations of earlier versions. */
  audited?: AuditedScore
  /** k: attempts asked for at each task. */
  attempts: number
  /** Chance that one of k attempts (`any`) and that all of them (`all`) resolve; null where a task has fewer valid attempts. */
  passAtK: { k: number; any: StoredMean | null; all: StoredMean | null }[]
  /** Every planned task, also those without a valid attempt. */
  tasks: EvaluatedTask[]
  /** Episodes by disposition, over all of them. */
  dispositions: Partial<Record<Disposition, number>>
  /** Episodes by verdict; `none` = never graded. */
  verdicts: Partial<Record<VerdictKind | 'none', number>>
  /** Episodes by the reason beside their verdict, such as `empty-patch`. */
  reasons: Record<string, number>
  /** Episodes that gave no outcome: lost to infrastructure, or could not be graded. */
  infra: number
  /** Episodes that are a suspected hack; the score counts their official verdict. */
  suspectedHacks: number
  couldNotGrade: number
  turns: StoredMean
  /** Null where no record tells. */
  sampledTokens: StoredMean | null
  /** Null where no record tells the time. */
  wallSeconds: StoredMean | null
  promptTokens?: StoredMean
  cachedTokens?: StoredMean
  cost?: EvaluationCost
  totals: {
    turns: number
    /** Turns without exactly one command. */
    formatErrorTurns: number
    sampledTokens: number
    wallSeconds: number
    gradeSeconds: number
    promptTokens?: number
    cachedTokens?: number
  }
  /** Verdicts that took the gate's result for an empty or missing patch. */
  gradedByGate: number
  /** Null where the first episode has no stored spec. */
  conditions: EvaluationConditions | null
}
