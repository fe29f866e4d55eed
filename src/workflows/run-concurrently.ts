import { CancellationScope } from '@temporalio/workflow'

export interface RunConcurrentlyInput {
  /** Items under way at once. */
  concurrency: number
  /** What the first failure does to the items in progress: `cancel` cancels them, `finish` lets them complete. */
  onFailure: 'cancel' | 'finish'
  /** Takes the next item and runs it; false when none is left. After a wait it asks `hasFailed` whether to take one still. */
  runNext: (hasFailed: () => boolean) => Promise<boolean>
}

/**
 * Runs items concurrently and returns when all have ended. Only then the first failure is thrown: a workflow that closed at once would
 * abandon children that still close sandboxes, and activities that are not cancelled yet.
 */
export async function runConcurrently({ concurrency, onFailure, runNext }: RunConcurrentlyInput): Promise<void> {
  const failures: unknown[] = []
  const hasFailed = (): boolean => failures.length > 0
  await CancellationScope.cancellable(async () => {
    const scope = CancellationScope.current()
    const runner = async (): Promise<void> => {
      try {
        while (!hasFailed()) {
          if (!(await runNext(hasFailed))) return
        }
      } catch (error) {
        failures.push(error)
        if (onFailure === 'cancel') scope.cancel()
      }
    }
    await Promise.all(Array.from({ length: concurrency }, runner))
  })
  if (hasFailed()) throw failures[0]
}
