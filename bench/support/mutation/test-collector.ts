/**
 * Replaces `node:test` while mutants run: collects tests, so that each can run thousands of times in one process. It supports only
 * the names and functions that the unit tests of the pure folders use and refuses everything else, so no test is skipped silently.
 */
export interface CollectedTest {
  name: string
  run: () => unknown
}

let collected: CollectedTest[] = []

type Run = () => unknown

/** What tests of the pure folders use of `node:test`'s context. */
interface TestContext {
  after(hook: Run): void
}

/**
 * @param rest the function, optionally preceded by options with only a timeout (Stryker limits each run itself). Its context has
 *   nothing but `after`.
 */
export function test(name: string, ...rest: readonly unknown[]): void {
  const run = rest.at(-1)
  const options = rest.length > 1 ? Object.keys(rest[0] ?? {}) : []
  const isPlain = rest.length <= 2 && options.every((option) => option === 'timeout')
  if (!isPlain || typeof run !== 'function' || run.length > 1) {
    throw new TypeError(`Expected test(name, function), got something else [test=${name}]`)
  }
  collected.push({ name: [...groups, name].join(' > '), run: withHooks(run as (context: TestContext) => unknown) })
}

/** Runs the hooks of a test in the order of their registration after it passed or failed, as `node:test` does. */
function withHooks(run: (context: TestContext) => unknown): Run {
  return async () => {
    const hooks: Run[] = []
    const known: TestContext = { after: (hook) => void hooks.push(hook) }
    const context = new Proxy(known, {
      get(target, name) {
        if (name === 'after') return target.after
        throw new TypeError(`Expected a test to use only after of its context, got ${String(name)}`)
      },
    })
    try {
      await run(context)
    } finally {
      for (const hook of hooks) await hook()
    }
  }
}

const groups: string[] = []

/** A group without options and hooks; its tests are collected at once. */
export function describe(name: string, ...rest: readonly unknown[]): void {
  const [define] = rest
  if (rest.length !== 1 || typeof define !== 'function' || define.length > 0) {
    throw new TypeError(`Expected describe(name, function), got something else [describe=${name}]`)
  }
  groups.push(name)
  try {
    const ended: unknown = (define as Run)()
    if (ended instanceof Promise)
      throw new TypeError(`Expected describe to define its tests at once [describe=${name}]`)
  } finally {
    groups.pop()
  }
}

/** The tests collected since the last call. */
export function takeCollected(): CollectedTest[] {
  const taken = collected
  collected = []
  return taken
}
