import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { GradingPlan, GradingRecord } from '../../contracts/grading.types.ts'
import { gradingKeys } from '../../contracts/keys.ts'
import { compareVerdicts, type VerdictComparison } from '../../domain/statistics/compare-verdicts.ts'
import { createTaskReader, readOrThrow } from '../runtime/stored-tasks.ts'

/**
 * What a run that graded stored patches again changed, from its records alone, so that it can be said of every such run.
 * @returns null for predictions, which have no first verdicts, and where no patch was judged twice
 */
export async function compareGradings(store: ArtifactStore, record: GradingRecord): Promise<VerdictComparison | null> {
  if (record.source.kind !== 'run') return null
  const { instances: planned } = await readOrThrow<GradingPlan>(store, gradingKeys.plan(record.run))
  const readTask = createTaskReader(store)
  const patches = []
  // The record lists the plan's instances in the plan's order.
  for (const [place, { taskId, before, kind }] of record.instances.entries()) {
    const { repo } = await readTask({ suite: planned[place]?.suite ?? '', taskId })
    patches.push({ taskId, repo, before: before?.kind ?? null, kind })
  }
  return compareVerdicts(patches)
}
