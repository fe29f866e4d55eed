import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { GateRecord, TaskGate } from '../../contracts/gates.types.ts'
import { gateKeys } from '../../contracts/keys.ts'
import type { TaskEvidence } from '../../contracts/suites.types.ts'

/**
 * What the filters `hidden-names` and `deterministic` read of one task; null where it was never graded. Of the log without the
 * gold patch only the lines that name what was missed: whole logs of thousands of tasks fit no file that is read at once. A task
 * whose gold patch never resolved, or not gradably, says nothing about determinism.
 */
export async function taskEvidence(store: ArtifactStore, gate: TaskGate): Promise<TaskEvidence | null> {
  const { taskId, identity, outcome, gradings, flips } = gate
  if (identity === null) return null
  const empty =
    gradings.empty === 0 ? null : await store.readRecord<GateRecord>(gateKeys.grading(taskId, identity, 'empty', 1))
  const isGraded = empty !== null && empty.verdict !== 'could-not-grade'
  return {
    instance_id: taskId,
    ...(isGraded ? { emptyLog: empty.missedNames.join('\n') } : {}),
    ...(outcome === 'passed' || outcome === 'flaky'
      ? {
          gold: {
            runs: gradings.gold,
            flipping: flips.filter(({ check }) => check === 'gold').map(({ test }) => test),
          },
        }
      : {}),
  }
}
