import { join } from 'node:path'

/** The state of the scripted policy server that survives a restart. */
export interface PolicyState {
  /** Directory by version. */
  loaded: Record<string, string>
  /** Until this time it answers as if it held another policy; ms since 1970. */
  otherWeightsUntilMs: number
}

export function policyStateFile(folder: string, server: string): string {
  return join(folder, `${server}.json`)
}
