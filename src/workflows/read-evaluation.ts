import type { EvaluationPage, ReadEvaluationInput } from '../contracts/workflows.types.ts'
import { artifacts } from './activity-proxies.ts'
import { withCode } from './failures.ts'
import { requireResult } from './require-result.ts'

/**
 * Returns one page of an evaluation's record to a client without an artifact store, such as a CI job. An artifact worker reads it, so
 * that a run's own result stays small and a run that Temporal has deleted can still be read. No children; the client limits the wait.
 */
export async function readEvaluation(input: ReadEvaluationInput): Promise<EvaluationPage> {
  try {
    return requireResult('readEvaluation', await artifacts.readEvaluation(input))
  } catch (error) {
    throw withCode(error)
  }
}
