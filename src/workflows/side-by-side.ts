import { CancellationScope } from '@temporalio/workflow'

export interface SideBySideInput {
  /** Items under way at once. */
  lanes: number
  /** What the first failure does to the items that other lanes are at: `cancel` ends them, `finish` lets them end. */
  onFailure: 'cancel' | 'finish'
  /**
   * Takes the next item and plays it; false ends the lane. A lane asks until then, or until any lane has failed. Where the call
   * waits before it takes an item, `hasFailed` tells whether there is still a reason to take one.
   */
  playNext: (hasFailed: () => boolean) => Promise<boolean>
}

/**
 * Plays items in lanes side by side and ends when each lane has ended. The first failure is thrown only then: a workflow that
 * closed at once would leave behind children that still close sandboxes and write the outcome of their episodes, or containers
 * whose activities have yet to learn of it.
 */
export async function sideBySide({ lanes, onFailure, playNext }: SideBySideInput): Promise<void> {
  const failures: unknown[] = []
  const hasFailed = (): boolean => failures.length > 0
  await CancellationScope.cancellable(async () => {
    const scope = CancellationScope.current()
    const lane = async (): Promise<void> => {
      try {
        while (!hasFailed()) {
          if (!(await playNext(hasFailed))) return
        }
      } catch (error) {
        failures.push(error)
        if (onFailure === 'cancel') scope.cancel()
      }
    }
    await Promise.all(Array.from({ length: lanes }, lane))
  })
  if (hasFailed()) throw failures[0]
}
