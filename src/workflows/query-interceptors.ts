/**
 * Refuses a query whose replay went further than the last workflow task. A worker that does not have the workflow in its cache reads the
 * whole history, including events that wait for their workflow task, and Core applies those too. They would then be missing from that
 * task: signals that come with it would find another state than on replay, where a task begins with its signals. The history could not
 * be replayed ([TMPRL1100]), and the workflow would be stuck after the next loss of its worker.
 */
import type { WorkflowInterceptorsFactory } from '@temporalio/workflow'
import { EARLY_QUERY } from '../contracts/errors.ts'

export const interceptors: WorkflowInterceptorsFactory = () => {
  let last = { length: 0, bytes: 0, at: 0 }
  return {
    internals: [
      {
        activate(input, next) {
          const { jobs, historyLength, historySizeBytes } = input.activation
          if (jobs?.some(({ queryWorkflow }) => queryWorkflow) === true) return next(input)
          // The start of a workflow task says what time it is and how large the history. Further events without such a start change neither.
          const now = { length: historyLength ?? 0, bytes: historySizeBytes?.toNumber() ?? 0, at: Date.now() }
          const hasSameStart = now.bytes > 0 && now.bytes === last.bytes && now.at === last.at
          if (hasSameStart && now.length > last.length) throw earlyQuery()
          last = now
          return next(input)
        },
      },
    ],
  }
}

/** Fails the query; the worker drops the workflow from its cache. */
function earlyQuery(): Error {
  const error = new Error(EARLY_QUERY)
  // The message is complete, and the stack of the check would not help.
  error.stack = ''
  return error
}
