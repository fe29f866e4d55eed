/**
 * Stands in for `node:test` while mutants run: collects tests, so that each can be run thousands of times in one process. It knows
 * what the unit tests of the pure folders use, a name and a function, and refuses the rest: no test is passed over in silence.
 */
export interface CollectedTest {
  name: string
  run: () => unknown
}

let collected: CollectedTest[] = []

type Run = () => unknown

/** @param rest the function, or options with a timeout alone (Stryker bounds each run itself) and the function */
export function test(name: string, ...rest: readonly unknown[]): void {
  const run = rest.at(-1)
  const options = rest.length > 1 ? Object.keys(rest[0] ?? {}) : []
  const isPlain = rest.length <= 2 && options.every((option) => option === 'timeout')
  if (!isPlain || typeof run !== 'function' || run.length > 0) {
    throw new TypeError(`Expected test(name, function) without a context, got something else [test=${name}]`)
  }
  collected.push({ name, run: run as Run })
}

/** What was collected since the last call. */
export function takeCollected(): CollectedTest[] {
  const taken = collected
  collected = []
  return taken
}
