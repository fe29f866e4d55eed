import { randomUUID } from 'node:crypto'
import { LonghaulError } from '../contracts/errors.ts'
import type { EvaluationDocument } from '../contracts/evaluations.types.ts'
import { QUEUES, workflowIds } from '../contracts/workflow-ids.ts'
import type { EvaluationPage } from '../contracts/workflows.types.ts'
import { openPages } from '../platform/packed-pages.ts'
import type { LonghaulConnection } from './connect.ts'
import { toOutcome } from './watch-run.ts'

export interface ReadEvaluationOptions {
  connection: LonghaulConnection
  run: string
  /** @default the last held-out evaluation */
  name?: string
  /** How long the workers may take for one page. @default 120000 */
  timeoutMs?: number
}

/**
 * An evaluation's record with what stands beside it, read by the workers and sent through Temporal: no artifact store is needed here.
 * @throws LonghaulError `Config.NotFound` naming what there is; `Worker.Missing` where no worker answers in time
 */
export function readEvaluation({
  connection,
  run,
  name,
  timeoutMs = 120_000,
}: ReadEvaluationOptions): Promise<EvaluationDocument> {
  const { workflow } = connection.client
  return openPages<EvaluationDocument>(async (from) => {
    const handle = await workflow.start('readEvaluation', {
      workflowId: workflowIds.reading(run.slice(0, 100), randomUUID()),
      taskQueue: QUEUES.control,
      args: [{ run, ...(name === undefined ? {} : { name }), from }],
      // Nothing is left waiting on the server when a client has gone.
      workflowExecutionTimeout: timeoutMs,
      staticSummary: 'evaluation record for a client',
    })
    const outcome = await toOutcome<EvaluationPage>(handle.result() as Promise<EvaluationPage>)
    if (outcome.status === 'completed') return outcome.result
    if (outcome.status === 'failed') throw new LonghaulError({ code: outcome.code, message: outcome.message })
    throw new LonghaulError({
      code: 'Worker.Missing',
      message: `No worker read the evaluation of ${run} within ${timeoutMs / 1000} s: are workers of the roles control and artifacts running?`,
      details: { status: outcome.status },
    })
  })
}
