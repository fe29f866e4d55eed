import type { VerdictKind } from '../../contracts/episodes.types.ts'
import type { EvaluatedTask } from '../../contracts/evaluations.types.ts'
import { type Comparison, compareEvaluations } from './comparison.ts'

/** One patch that was judged twice. */
export interface RejudgedPatch {
  taskId: string
  repo: string
  /** Null if there was no first verdict. */
  before: VerdictKind | null
  kind: VerdictKind
}

/** The effect of another grading. Nothing was sampled again, so every patch is its own pair. */
export interface VerdictComparison {
  /** Number of patches with a verdict both times. */
  patches: number
  /** Number of patches that one of the gradings could not judge; they count on neither side. */
  unpaired: number
  comparison: Comparison
}

/**
 * Compares first verdicts with new ones, as two evaluations of the same attempts. A patch without a verdict on one side is left out of
 * both.
 * @returns null if no patch has two verdicts
 */
export function compareVerdicts(all: readonly RejudgedPatch[]): VerdictComparison | null {
  const paired = all.filter(({ before, kind }) => isJudged(before) && isJudged(kind))
  if (paired.length === 0) return null
  const byTask = [...Map.groupBy(paired, ({ taskId }) => taskId).values()]
  return {
    patches: paired.length,
    unpaired: all.length - paired.length,
    comparison: compareEvaluations({
      before: byTask.map((patches) => asTask(patches, ({ before }) => before)),
      after: byTask.map((patches) => asTask(patches, ({ kind }) => kind)),
    }),
  }
}

function isJudged(kind: VerdictKind | null): boolean {
  return kind === 'resolved' || kind === 'unresolved'
}

function asTask(
  patches: readonly RejudgedPatch[],
  verdictOf: (patch: RejudgedPatch) => VerdictKind | null,
): EvaluatedTask {
  const [{ taskId, repo } = { taskId: '', repo: '' }] = patches
  return {
    taskId,
    repo,
    rowHash: '',
    createdAt: null,
    outcomes: patches.map((patch): 0 | 1 => (verdictOf(patch) === 'resolved' ? 1 : 0)),
    lost: 0,
    turns: [],
    sampledTokens: [],
    wallSeconds: [],
  }
}
