import type { EvaluationPage, ReadEvaluationInput } from '../contracts/workflows.types.ts'
import { artifacts } from './activity-proxies.ts'
import { withCode } from './failures.ts'

/**
 * Hands one page of an evaluation's record to a client that has no artifact store, such as a CI job. The worker of the artifacts reads it;
 * a run's own result stays small, and a run that Temporal has forgotten can still be read. No children; the client bounds it.
 */
export async function readEvaluation(input: ReadEvaluationInput): Promise<EvaluationPage> {
  try {
    return await artifacts.readEvaluation(input)
  } catch (error) {
    throw withCode(error)
  }
}
