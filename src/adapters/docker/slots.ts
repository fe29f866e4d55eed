/** At most `limit` pieces of work at once; the rest waits in order. */
export interface Slots {
  use<T>(work: () => Promise<T>): Promise<T>
}

export function createSlots(limit: number): Slots {
  const waiting: (() => void)[] = []
  let free = limit

  const acquire = async (): Promise<void> => {
    if (free > 0) free -= 1
    // The one that leaves hands its slot over, so `free` is not touched on this path.
    else await new Promise<void>((resolve) => waiting.push(resolve))
  }
  const release = (): void => {
    const next = waiting.shift()
    if (next === undefined) free += 1
    else next()
  }

  return {
    async use(work) {
      await acquire()
      try {
        return await work()
      } finally {
        release()
      }
    },
  }
}
