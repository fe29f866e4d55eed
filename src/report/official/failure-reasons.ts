/** swebench 5's guess, from the logs, why an instance failed; never changes a verdict. */
export interface FailureGuess {
  reason: string
  tier: 'environment' | 'ambiguous'
}

/** In order of precedence: the first pattern that occurs anywhere counts. */
const SIGNATURES: readonly (FailureGuess & { pattern: RegExp })[] = [
  {
    reason: 'browser_launch_failed',
    tier: 'environment',
    pattern: /Failed to launch|Failed to connect to the bus/,
  },
  {
    reason: 'display_unavailable',
    tier: 'environment',
    pattern: /cannot open display|Missing X server|unable to open X display/,
  },
  {
    reason: 'out_of_memory',
    tier: 'environment',
    // `Killed` as a whole line, which ends only with a line feed in Python.
    pattern: /Cannot allocate memory|OutOfMemoryError|(?<![^\n])Killed(?![^\n])/,
  },
  {
    reason: 'container_unavailable',
    tier: 'environment',
    pattern: /Error response from daemon|Cannot connect to the Docker daemon/,
  },
  {
    reason: 'network_unreachable',
    tier: 'environment',
    pattern: /Could not resolve host|Temporary failure in name resolution/,
  },
  {
    reason: 'missing_module',
    tier: 'ambiguous',
    pattern: /Cannot find module|MODULE_NOT_FOUND|ModuleNotFoundError/,
  },
  { reason: 'no_tests_collected', tier: 'ambiguous', pattern: /no tests ran|collected 0 items/ },
  { reason: 'tests_timed_out', tier: 'ambiguous', pattern: /Timeout error: \p{Nd}+ seconds exceeded/u },
]

/** @param logs texts of the existing files, in order: the test output for `report.json`, also the instance's log for the run report */
export function guessFailure(logs: readonly string[]): FailureGuess | null {
  const text = logs.map((log) => log.replaceAll(/\r\n?/g, '\n')).join('\n')
  const found = SIGNATURES.find(({ pattern }) => pattern.test(text))
  return found === undefined ? null : { reason: found.reason, tier: found.tier }
}
