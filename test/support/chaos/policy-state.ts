import { join } from 'node:path'

/** What the scripted policy server remembers over a restart. */
export interface PolicyState {
  /** Directory by version. */
  loaded: Record<string, string>
  /** Until then it answers as if it held another policy; ms since 1970. */
  otherWeightsUntilMs: number
}

export function policyStateFile(folder: string, server: string): string {
  return join(folder, `${server}.json`)
}
