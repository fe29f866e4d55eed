/**
 * Which children this workflow has asked the server to start and the server has not started yet. Nothing else tells: the promise of
 * `executeChild` is that of the child's result. Until then no signal reaches the child.
 */
import type { WorkflowInterceptorsFactory } from '@temporalio/workflow'

const starting = new Map<string, number>()

export function isStarting(workflowId: string): boolean {
  return starting.has(workflowId)
}

/** Only listens: it delays no command, so it changes the order of none. */
export const interceptors: WorkflowInterceptorsFactory = () => ({
  outbound: [
    {
      startChildWorkflowExecution(input, next) {
        const asked = next(input)
        const { workflowId } = input.options
        starting.set(workflowId, input.seq)
        // A later start under this id may be under way by then.
        const ended = (): void => {
          if (starting.get(workflowId) === input.seq) starting.delete(workflowId)
        }
        void asked.then(([started]) => started).then(ended, ended)
        return asked
      },
    },
  ],
})
