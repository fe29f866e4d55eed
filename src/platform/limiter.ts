/** Runs at most `limit` pieces of work concurrently; the others wait in order. */
export interface Slots {
  /** Work that is aborted while it waits never starts; its place is freed and the signal's reason is thrown. */
  use<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T>
}

export function createSlots(limit: number): Slots {
  const waiting: (() => void)[] = []
  let free = limit

  const acquire = async (signal: AbortSignal | undefined): Promise<void> => {
    signal?.throwIfAborted()
    if (free > 0) {
      free -= 1
      return
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const leave = (): void => {
      waiting.splice(waiting.indexOf(resolve), 1)
      reject(signal?.reason as Error)
    }
    waiting.push(resolve)
    signal?.addEventListener('abort', leave, { once: true })
    // The finished piece hands its slot over, so `free` does not change on this path.
    await promise.finally(() => signal?.removeEventListener('abort', leave))
  }
  const release = (): void => {
    const next = waiting.shift()
    if (next === undefined) free += 1
    else next()
  }

  return {
    async use(work, signal) {
      await acquire(signal)
      try {
        return await work()
      } finally {
        release()
      }
    },
  }
}

/** Runs the work of one key sequentially and in order. Keys do not wait for each other, and a failure does not stop the next piece. */
export interface KeyedQueue {
  run<T>(key: string, work: () => Promise<T>): Promise<T>
}

export function createKeyedQueue(): KeyedQueue {
  /** The last piece of each key that has one. */
  const last = new Map<string, Promise<unknown>>()
  return {
    async run(key, work) {
      const before = last.get(key) ?? Promise.resolve()
      const mine = before.then(work, work)
      last.set(key, mine)
      try {
        return await mine
      } finally {
        if (last.get(key) === mine) last.delete(key)
      }
    },
  }
}
