/**
 * What this process waits for, and whether a display shows it: a command line is one process, so one list is enough. `local-stack.ts`,
 * which all commands use, registers waits; `sign-of-life.ts` reads them if a command prints nothing itself.
 */
const waits = new Set<{ what: string }>()
let displays = 0

/** Registers a wait until the returned function is called. */
export function noteWait(what: string): () => void {
  const wait = { what }
  waits.add(wait)
  return () => void waits.delete(wait)
}

/** The wait that began last, which is the innermost one; null without a wait. */
export function innermostWait(): string | null {
  return [...waits].at(-1)?.what ?? null
}

/** Registers a display, which shows progress itself, until the returned function is called. */
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
 * Wraps an object so that its pending calls are registered as waits.
 * @param say describes a call, in the present: `reading runs/a/run.json`
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
