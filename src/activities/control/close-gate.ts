import { decideAdmission } from '../../domain/gate-rules.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { suiteKeys } from '../../contracts/keys.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import type { GateRecord } from '../sandbox/gate-task.ts'
import type { GatedSuite, SuiteReader } from '../stored-tasks.ts'

/** Collects the checks of a suite into its gated list. A refused task ends the run unless the recipe excludes such tasks. */
export async function closeGate(
  deps: { store: ArtifactStore; suites: SuiteReader; recipe: Recipe },
  { suite }: { suite: string },
): Promise<{ admitted: number; refused: number }> {
  const { repeats, refused: onRefused } = deps.recipe.data.gate
  const { taskIds, name } = await deps.suites(suite)
  const gated: GatedSuite = { schema: 'longhaul.gated-suite/1', suite, repeats, admitted: [], refused: [] }
  for (const taskId of taskIds) {
    const checks = await checksOf(deps.store, { suite, taskId, repeats })
    const admission = decideAdmission({ checks, repeats })
    if (admission.admitted) gated.admitted.push(taskId)
    else gated.refused.push({ taskId, reason: `${admission.reason}: ${describe(checks)}` })
  }
  const [first] = gated.refused
  if (first !== undefined && onRefused === 'fail') {
    throw new LonghaulError({
      code: 'Task.GateFailed',
      message: `Expected every task of ${name} to pass its gate, but ${first.taskId} did not: ${first.reason}. Repair or remove the task, or set data.gate.refused to exclude`,
      details: { suite: suite.slice(0, 12), refused: gated.refused.length },
    })
  }
  await deps.store.claimRecord(suiteKeys.gated(suite, repeats), gated)
  return { admitted: gated.admitted.length, refused: gated.refused.length }
}

async function checksOf(
  store: ArtifactStore,
  { suite, taskId, repeats }: { suite: string; taskId: string; repeats: number },
): Promise<GateRecord[]> {
  const checks: GateRecord[] = []
  for (let repeat = 1; repeat <= repeats; repeat++) {
    for (const check of ['gold', 'empty'] as const) {
      const record = await store.readRecord<GateRecord>(suiteKeys.gate(suite, taskId, check, repeat))
      if (record !== null) checks.push(record)
    }
  }
  return checks
}

function describe(checks: GateRecord[]): string {
  const bad = checks.find(({ ok }) => !ok)
  if (bad === undefined) return 'not every check was made'
  const expected = bad.check === 'gold' ? 'resolved' : 'unresolved'
  return `the ${bad.check} patch was ${bad.verdict}${bad.reason === null ? '' : ` (${bad.reason})`}, expected ${expected}`
}
