import type { ArtifactRef, ArtifactStore } from '../../contracts/artifacts.types.ts'
import { runKeys } from '../../contracts/keys.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import type { StageScore } from '../../contracts/workflows.types.ts'
import { buildEvaluationLedger, unpaidIn } from '../../domain/ledger/ledger.ts'
import type { TaskReader } from '../runtime/stored-tasks.ts'
import { deriveEvaluation } from './derive-evaluation.ts'

export interface SummarizeInput {
  run: string
  name: string
  stage: string
  policy: PolicyRef
  suite: string
}

/** The score of an evaluation, its record and its ledger, all derived from the episodes' records. */
export async function summarizeEvaluation(
  deps: { store: ArtifactStore; tasks: TaskReader },
  { run, name, stage }: SummarizeInput,
): Promise<{ score: StageScore; evaluation: ArtifactRef }> {
  const { store } = deps
  const { evaluation, records, recipe } = await deriveEvaluation(deps, { run, name, stage })
  const unpaid = unpaidIn(records, recipe)
  const ledger = buildEvaluationLedger({ run, stage, iteration: 0, records, evaluation: name, unpaid })
  await store.putRecord(runKeys.ledger(run, stage, 0), ledger)
  return { score: evaluation.score, evaluation: await store.putRecord(runKeys.evaluation(run, name), evaluation) }
}
