import { CancellationScope } from '@temporalio/workflow'

/**
 * Runs lanes side by side and ends when each has ended. The first failure cancels the others and is thrown once they are done: a
 * workflow that closed at once would leave children behind that still close sandboxes and write the outcome of their episodes.
 */
export async function sideBySide(lanes: number, lane: () => Promise<void>): Promise<void> {
  const failures: unknown[] = []
  await CancellationScope.cancellable(async () => {
    const scope = CancellationScope.current()
    const guarded = async (): Promise<void> => {
      try {
        await lane()
      } catch (error) {
        failures.push(error)
        scope.cancel()
      }
    }
    await Promise.all(Array.from({ length: lanes }, guarded))
  })
  if (failures.length > 0) throw failures[0]
}
