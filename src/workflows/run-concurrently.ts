import { CancellationScope } from '@temporalio/workflow'

export interface RunConcurrentlyInput {
  /** Maximum number of concurrent items, evaluated before each item. */
  concurrency: () => number
  /** What the first failure does to the items in progress: `cancel` cancels them, `finish` lets them complete. */
  onFailure: 'cancel' | 'finish'
  /** Takes the next item and runs it; returns false if none is left. After a wait it calls `hasFailed` to decide whether to take one. */
  runNext: (hasFailed: () => boolean) => Promise<boolean>
  /** Receives a function that starts further runners after `concurrency` has grown. */
  onStart?: (widen: () => void) => void
}

/**
 * Runs items concurrently and returns when all have ended. The first failure is thrown only then, because a workflow that closed at
 * once would abandon children that still close sandboxes and activities that are not yet cancelled.
 */
export async function runConcurrently(input: RunConcurrentlyInput): Promise<void> {
  const { concurrency, onFailure, runNext, onStart } = input
  const failures: unknown[] = []
  const hasFailed = (): boolean => failures.length > 0
  await CancellationScope.cancellable(async () => {
    const scope = CancellationScope.current()
    const ends = new Set<Promise<void>>()
    let runners = 0
    let isOver = false
    const runner = async (): Promise<void> => {
      try {
        while (!hasFailed() && runners <= Math.max(1, concurrency())) {
          if (!(await runNext(hasFailed))) break
        }
      } catch (error) {
        failures.push(error)
        if (onFailure === 'cancel') scope.cancel()
      }
      runners -= 1
    }
    const fill = (): void => {
      if (isOver) return
      while (!hasFailed() && runners < Math.max(1, concurrency())) {
        runners += 1
        const end = runner().finally(() => ends.delete(end))
        ends.add(end)
      }
    }
    fill()
    // An update may arrive in another scope; items that it starts must be cancelled with the others.
    onStart?.(() => void scope.run(async () => fill()))
    while (ends.size > 0) await Promise.all(ends)
    isOver = true
  })
  if (hasFailed()) throw failures[0]
}
