/** What a run cost, and what each of its numbers rests on. */
import type { PriceRecipe } from './recipe.types.ts'

/** The time of a training job, kept when it has ended: its own files lie on the trainer's machine. The first one written stays. */
export interface JobTimeRecord {
  schema: 'longhaul.job-time/1'
  stage: string
  iteration: number
  slice: number
  device: 'cpu' | 'cuda'
  /** Processes of one attempt, each with a device of its own. */
  ranks: number
  attempts: JobAttemptTime[]
}

/** One launch of a training job, by the clock of its first process. */
export interface JobAttemptTime {
  fence: number
  /** First and last line of its progress, ms since 1970; null where it wrote none. A killed one beats every 10 s until then. */
  startedAtMs: number | null
  endedAtMs: number | null
  /** In the trainer's words, `ok` for success; null where it left no report. */
  end: string | null
}

export interface PolicyHash {
  version: string
  /** SHA-256 of its manifest; null where no record says it. */
  manifestSha256: string | null
}

/** What a trained policy was made from. One for each version, whichever run made it. */
export interface LineageRecord {
  schema: 'longhaul.lineage/1'
  policy: PolicyHash
  parent: PolicyHash
  by: { run: string; stage: string; iteration: number; slice: number }
  jobKey: string
  batchSha256: string
}

/** The code that resolved a run; a run that other code continues has one for each. */
export interface CodeRecord {
  schema: 'longhaul.code/1'
  /** Of the package. */
  version: string
  /** Commit of the checkout; null outside of one. */
  revision: string | null
  /** SHA-256 over the files that ran, changes that are not committed too. */
  filesSha256: string
  node: string
}

/** A sum over records. */
export interface Amount {
  /** Of the records that tell; null where there are records and none of them does. */
  total: number | null
  told: number
  /** Records that do not tell: the total is a lower bound then. */
  unknown: number
}

/** What is added up, each in its own unit. */
export interface Spent {
  /** Seconds of its devices: wall time × processes. */
  trainerSeconds: Amount
  /** From the placement of a sandbox to its last sign of life. */
  sandboxSeconds: Amount
  /** Official steps and audit, of episodes and gates. */
  gradingSeconds: Amount
  promptTokens: Amount
  sampledTokens: Amount
  /** Zero where the recipe has no prices: `RunCosts.prices` says which. */
  money: Amount
}

/** Paid for, without a result of its own. */
export interface LostWork {
  what: 'episode' | 'sandbox' | 'grading' | 'trainer'
  because: string
  count: number
  /** A part of what the stage spent. */
  spent: Omit<Spent, 'money'>
}

export interface StageCosts {
  /** `gate`, `rft`, a reinforce stage, `eval-<evaluation>`. */
  stage: string
  episodes: number
  /** Those of them without a verdict that counts, and those that are still played. */
  lostEpisodes: number
  openEpisodes: number
  /** Tasks that an attempt resolved. */
  resolvedTasks: number
  spent: Spent
  /** Lower bounds where a total is; null where the total or the number of tasks says nothing. */
  perResolvedTask: Record<keyof Spent, number | null>
  lost: LostWork[]
}

export interface RunCosts {
  device: 'cpu' | 'cuda' | null
  /** Null: nothing is said about money. */
  prices: PriceRecipe | null
  /** In the order in which they began. */
  stages: StageCosts[]
  /** The sum over the stages; tasks that several stages resolved count once. */
  whole: StageCosts
}

/** What the score of an evaluation rests on. */
export interface EvaluationLineage {
  name: string
  /** From the base to the policy that was played. */
  policies: PolicyHash[]
  suite: string
  dataset: string | null
  /** Commit of the data set, hash of its file, or the seed of synthesised tasks; null where unknown. */
  revision: string | null
  images: {
    /** Different ones among the tasks. */
    count: number
    /** Over their sorted digests, one a line. */
    sha256: string
    /** Tasks whose image no record names. */
    unknown: number
  }
  /** Profiles with the revision of their imitation, as `fork-4.0.3 r2`. */
  grading: string[]
}

export interface RunLineage {
  recipeSha256: string
  /** In the order in which they resolved the run; none for runs of earlier versions. */
  code: Omit<CodeRecord, 'schema'>[]
  evaluations: EvaluationLineage[]
  /** Every policy of the chains, in order. */
  policies: (PolicyHash & {
    parent: string | null
    /** Where it was trained; null for a base, and where no record says it. */
    by: { run: string; stage: string; iteration: number } | null
    /** Number of the promotion that this run made of it. */
    promotion: number | null
  })[]
}

/** Durations of the phases, the only figures of a report that no other record contains. */
export interface DurationsRecord {
  schema: 'longhaul.durations/1'
  /** Seconds. */
  durations: Record<string, number>
}
