import { headlineEvaluation } from '../contracts/episode-purpose.ts'
import type { EvaluateResult, GradePredictionsResult, TrainAgentResult } from '../contracts/workflows.types.ts'
import { createSlots } from '../platform/limiter.ts'
import { CALL_TIMEOUT_MS, type LonghaulConnection } from './connect.ts'
import type { ListedRun } from './list-runs.ts'

/** The number that a run is known by: pass@1 with its standard error over tasks. */
export interface RunScore {
  /** Which evaluation of the run it is, such as `rl`; null of a grading. */
  name: string | null
  passAt1: number
  sem: number
  tasks: number
}

/** Requests at once: a server answers each within milliseconds. */
const READS_AT_ONCE = 16

/**
 * The scores that completed runs returned, by one small request each: only a history's last event is read. All requests together
 * have one deadline. A result that cannot be read in time, or without the keys of encrypted histories, has no score; the list is still
 * worth showing.
 */
export async function readScores(
  connection: LonghaulConnection,
  runs: readonly Pick<ListedRun, 'workflowId' | 'type' | 'status' | 'executionId'>[],
): Promise<(RunScore | null)[]> {
  const slots = createSlots(READS_AT_ONCE)
  const deadline = Date.now() + CALL_TIMEOUT_MS
  const read = async ({ workflowId, type, executionId }: (typeof runs)[number]): Promise<RunScore | null> => {
    if (Date.now() > deadline) return null
    try {
      const result: unknown = await connection.client.withDeadline(deadline, () =>
        // Of a completed execution the server answers at once, with the last event alone.
        connection.client.workflow.getHandle(workflowId, executionId, { followRuns: false }).result(),
      )
      return headlineScore(type, result)
    } catch {
      return null
    }
  }
  return Promise.all(
    runs.map(async (run) => {
      const hasScore = run.status === 'COMPLETED' && run.type !== 'gateSuite'
      return hasScore ? slots.use(() => read(run)) : null
    }),
  )
}

/** Of a training run: its last evaluation of the held-out suite, as `longhaul compare RUN` chooses it. */
export function headlineScore(type: string, result: unknown): RunScore | null {
  if (typeof result !== 'object' || result === null) return null
  if (type === 'gradePredictions') {
    const { graded = null } = result as Partial<GradePredictionsResult>
    return graded === null ? null : scoreOf({ name: null, passAt1: graded.mean, sem: graded.sem, tasks: graded.tasks })
  }
  if (type === 'evaluate') return scoreOf(result as EvaluateResult)
  const stages = (result as Partial<TrainAgentResult>).stages ?? []
  const chosen = headlineEvaluation(stages)
  return chosen === undefined ? null : scoreOf(chosen)
}

/** Runs of earlier versions and workflows of the same name that are not ours may have returned anything. */
function scoreOf({ name, passAt1, sem, tasks }: RunScore): RunScore | null {
  return typeof passAt1 === 'number' && typeof sem === 'number' ? { name, passAt1, sem, tasks } : null
}
