/**
 * What this process waits for and who speaks of it: a command line is one process, so one list is enough. Commands note their waits at the
 * doors that all of them use (`local-stack.ts`); `sign-of-life.ts` reads them where a command says nothing by itself.
 */
const waits = new Set<{ what: string }>()
let displays = 0

/** Until the returned function is called. */
export function noteWait(what: string): () => void {
  const wait = { what }
  waits.add(wait)
  return () => void waits.delete(wait)
}

/** The wait that began last, which is the innermost one; null where nothing is waited for. */
export function innermostWait(): string | null {
  return [...waits].at(-1)?.what ?? null
}

/** A display that says by itself how far the work is, until the returned function is called. */
export function noteDisplay(): () => void {
  displays += 1
  let isOver = false
  return () => {
    if (isOver) return
    isOver = true
    displays -= 1
  }
}

export function hasDisplay(): boolean {
  return displays > 0
}

/**
 * The same thing, whose open calls are noted.
 * @param input.say of a call, in the present: `reading runs/a/run.json`
 */
export function notingCalls<T extends object>(thing: T, say: (method: string, argument: unknown) => string): T {
  return new Proxy(thing, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function' || typeof name !== 'string') return value
      return (...given: unknown[]): unknown => {
        const answer: unknown = Reflect.apply(value, target, given)
        if (!(answer instanceof Promise)) return answer
        const end = noteWait(say(name, given[0]))
        return answer.finally(end)
      }
    },
  })
}
