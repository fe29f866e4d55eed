import type { LogDecoding } from './log-slice.ts'
import { PARSERS_4, PARSERS_5, PARSERS_FORK, PARSERS_V2, type ParserTable } from './parsers/names.ts'
import { UNPORTED_4, UNPORTED_5, UNPORTED_FORK, UNPORTED_V2 } from './parsers/unported.ts'
import { RESOLUTION_4, RESOLUTION_5, type ResolutionRules } from './resolution.ts'

/** Between markers, then by lists of tests; what the SWE-bench harness and its fork do. */
export interface MarkedGrading {
  kind: 'marked'
  /** Whether the whole log is read where the part between the markers gives nothing. */
  fallsBack: boolean
  /** Whether a log must show that tests ran, and agree with the exit code it prints. */
  needsEvidence: boolean
  resolution: ResolutionRules
}

/** How one upstream harness gets from the bytes of a log to a verdict. A verdict means something only together with it. */
export interface LogProfile {
  decoding: LogDecoding
  parsers: ParserTable
  unported: ReadonlySet<string>
  /** `equal-lists`: the passed tests of the whole log are exactly the listed ones. */
  grading: MarkedGrading | { kind: 'equal-lists' }
}

export const LOG_PROFILES = {
  /** SWE-rebench/SWE-bench-fork 39316f7 */
  'fork-4.0.3': {
    decoding: 'strict',
    parsers: PARSERS_FORK,
    unported: UNPORTED_FORK,
    grading: { kind: 'marked', fallsBack: false, needsEvidence: false, resolution: RESOLUTION_4 },
  },
  /** swebench 4.1.0 */
  'swebench-4.1': {
    decoding: 'strict',
    parsers: PARSERS_4,
    unported: UNPORTED_4,
    grading: { kind: 'marked', fallsBack: true, needsEvidence: false, resolution: RESOLUTION_4 },
  },
  /** swebench 5.0.2, which writes the log it reads, and replaces bad bytes when it does */
  'swebench-5': {
    decoding: 'replace',
    parsers: PARSERS_5,
    unported: UNPORTED_5,
    grading: { kind: 'marked', fallsBack: true, needsEvidence: true, resolution: RESOLUTION_5 },
  },
  /** SWE-rebench/SWE-rebench-V2 c71902a; its log is standard output followed by standard error */
  'rebench-v2': {
    decoding: 'strict',
    parsers: PARSERS_V2,
    unported: UNPORTED_V2,
    grading: { kind: 'equal-lists' },
  },
} as const satisfies Record<string, LogProfile>

export type LogProfileName = keyof typeof LOG_PROFILES

export function isLogProfileName(name: string): name is LogProfileName {
  return Object.hasOwn(LOG_PROFILES, name)
}

/** Whether this version can read such a log; upstream knows more parsers than are ported. */
export function hasParser(profile: LogProfileName, parser: string): boolean {
  return LOG_PROFILES[profile].parsers.has(parser)
}
