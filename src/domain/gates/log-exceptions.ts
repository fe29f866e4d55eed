const NAME = '(?:[A-Za-z_]\\w*\\.)*[A-Za-z_]\\w*(?:Error|Exception|Interrupt|Exit|Warning|Timeout)'

/** A line that ends a traceback, bare or as pytest prints it behind an `E`. */
const LINE = new RegExp(`^(?:E {1,8})?(${NAME})(?::|$)`)

/** Where pytest says in which line of which file a test failed, by what. */
const PLACE = new RegExp(`^\\S+:\\d+: (${NAME})$`)

/**
 * How often the log of a test run ends a traceback with each kind of exception; modules before the name are left out. pytest
 * prints some both as a line and as a place, and a bare assertion as a place alone: the greater number counts.
 */
export function exceptionsIn(log: string): Record<string, number> {
  const lines = log.split('\n').map((line) => line.trimEnd())
  const [raised, placed] = [LINE, PLACE].map((pattern) => countNames(lines, pattern)) as [Counts, Counts]
  const names = [...new Set([...raised.keys(), ...placed.keys()])]
  return Object.fromEntries(names.map((name) => [name, Math.max(raised.get(name) ?? 0, placed.get(name) ?? 0)]))
}

type Counts = Map<string, number>

function countNames(lines: readonly string[], pattern: RegExp): Counts {
  const counts: Counts = new Map()
  for (const line of lines) {
    const name = pattern.exec(line)?.[1]?.split('.').at(-1)
    if (name !== undefined) counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  return counts
}
