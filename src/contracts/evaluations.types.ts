import type { StageScore } from './workflows.types.ts'

/** One evaluation with what is needed to recompute, pair and doubt its number. */
export interface EvaluationRecord {
  schema: 'longhaul.evaluation/1'
  run: string
  name: string
  stage: string
  suite: string
  score: StageScore
  /** Standard error clustered by task. */
  taskSem: number
  /** 95 % cluster bootstrap interval of pass@1; repositories are the clusters. */
  interval: { low: number; high: number } | null
  /** Valid attempts per task, in attempt order; 1 = resolved. */
  tasks: { taskId: string; outcomes: (0 | 1)[] }[]
  /** Episodes by disposition, over all of them. */
  dispositions: Record<string, number>
  infra: number
  /** Episodes that are a suspected hack; the score counts their official verdict. */
  suspectedHacks: number
  meanTurns: number
  formatErrorRate: number
  /** Verdicts that took the gate's result for an empty or missing patch. */
  gradedByGate: number
}
