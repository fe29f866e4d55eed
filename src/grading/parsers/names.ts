import { parsePytest, parsePytestOptions, parsePytestV2 } from './pytest.ts'
import type { StatusMap } from './pytest.ts'

/** Parsers by the name that rows give in `install_config.log_parser`. */
const PARSERS: Record<string, (log: string) => StatusMap> = {
  parse_log_pytest: parsePytest,
  parse_log_pytest_options: parsePytestOptions,
  parse_log_pytest_v2: parsePytestV2,
}

export function isLogParser(name: string): boolean {
  return Object.hasOwn(PARSERS, name)
}

/** Null for a name that this version does not know; such rows are refused when they are read. */
export function logParser(name: string): ((log: string) => StatusMap) | null {
  return isLogParser(name) ? (PARSERS[name] ?? null) : null
}
