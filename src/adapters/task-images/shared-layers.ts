import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import { createKeyedQueue } from '../../platform/limiter.ts'

export interface SharedLayers {
  /** Makes a layer. Two tasks never make the same one concurrently, and one that failed for a task fails at once for the next. */
  make(layer: { tag: string; taskId: string }, work: () => Promise<void>): Promise<void>
}

/** Layers that tasks of one command share. Its next start tries those that failed again. */
export function createSharedLayers(): SharedLayers {
  const queue = createKeyedQueue()
  const failed = new Map<string, { taskId: string; error: LonghaulError }>()
  return {
    make: ({ tag, taskId }, work) =>
      queue.run(tag, async () => {
        const earlier = failed.get(tag)
        if (earlier !== undefined) throw repeated(earlier)
        try {
          await work()
        } catch (error) {
          // A busy engine may make it for the next task; this one too is tried twice.
          if (isLonghaulError(error) && error.details['engine'] !== 'failed') failed.set(tag, { taskId, error })
          throw error
        }
      }),
  }
}

function repeated({ taskId, error }: { taskId: string; error: LonghaulError }): LonghaulError {
  const message = `Its environment is that of ${taskId}, which could not be made: see the message there`
  return new LonghaulError({ code: error.code, message, details: error.details, cause: error })
}
