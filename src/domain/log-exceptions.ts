/** A line that ends a traceback, bare or as pytest prints it behind an `E`. */
const EXCEPTION =
  /^(?:E {1,8})?((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit|Warning|Timeout))(?::|$)/

/** How often the log of a test run ends a traceback with each kind of exception; modules before the name are left out. */
export function exceptionsIn(log: string): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const line of log.split('\n')) {
    const name = EXCEPTION.exec(line.trimEnd())?.[1]?.split('.').at(-1)
    if (name !== undefined) counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}
