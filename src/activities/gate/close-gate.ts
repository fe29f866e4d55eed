import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { GatedSuite, TaskGate } from '../../contracts/gates.types.ts'
import { gateKeys } from '../../contracts/keys.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import type { SuiteReader } from '../runtime/stored-tasks.ts'

/** Collects the gates of a suite's tasks into the run's gated list. A refused task ends the run unless the recipe excludes such tasks. */
export async function closeGate(
  deps: { store: ArtifactStore; suites: SuiteReader; recipe: Recipe },
  { run, suite }: { run: string; suite: string },
): Promise<{ admitted: number; refused: number }> {
  const { repeats, refused: onRefused } = deps.recipe.data.gate
  const { taskIds, name } = await deps.suites(suite)
  const gated: GatedSuite = {
    schema: 'longhaul.gated-suite/2',
    suite,
    repeats,
    admitted: [],
    refused: [],
    digests: {},
  }
  for (const taskId of taskIds) {
    const gate = await deps.store.readRecord<TaskGate>(gateKeys.task(run, suite, taskId))
    if (gate?.outcome !== 'passed') gated.refused.push({ taskId, reason: describe(gate) })
    else {
      gated.admitted.push(taskId)
      if (gate.registryDigest !== null) gated.digests[taskId] = gate.registryDigest
    }
  }
  const [first] = gated.refused
  if (first !== undefined && onRefused === 'fail') {
    throw new LonghaulError({
      code: 'Task.GateFailed',
      message: `Expected every task of ${name} to pass its gate, but ${first.taskId} did not: ${first.reason}. Repair or remove the task, or set data.gate.refused to exclude`,
      details: { suite: suite.slice(0, 12), refused: gated.refused.length },
    })
  }
  const { record } = await deps.store.claimRecord(gateKeys.gated(run, suite), gated)
  return { admitted: record.admitted.length, refused: record.refused.length }
}

function describe(gate: TaskGate | null): string {
  return gate === null ? 'could-not-gate: it has no gate' : `${gate.outcome}: ${gate.reason}`
}
