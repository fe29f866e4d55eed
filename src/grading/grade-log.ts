import type { LogProfile, MarkedGrading } from './log-profiles.ts'
import { decodeLog, sliceLog } from './log-slice.ts'
import { PythonError, DIGIT, isZero, LINE_END, LINE_START, SPACE, WORD } from './parsers/python-text.ts'
import type { LogParser, StatusMap } from './parsers/status-map.ts'
import { type EvalType, isResolved, type ListedTests, sortTests, type TestLists } from './resolution.ts'
import { withoutTiming, withoutTimings } from './test-names.ts'

export interface GradeLogInput {
  profile: LogProfile
  /** The parser's name in the row. */
  parser: string
  log: Uint8Array
  /** Null: only parses the whole log. Lists, even empty ones: grades it. */
  tests: ListedTests | null
  evalType?: EvalType
}

/** Why upstream ends the instance with an error, or Longhaul cannot tell what upstream would find; the caller reports `deadline`. */
export type RefusalReason = 'unknown-parser' | 'unsupported-parser' | 'undecodable-log' | 'parser-raised' | 'deadline'

export interface GradedLog {
  kind: 'graded'
  statuses: StatusMap
  /** False if upstream finds no results in the log; the verdict is then unresolved. */
  isFound: boolean
  /** Null if no lists were passed. */
  resolved: boolean | null
  /** Null without lists, without results, and under `rebench-v2`, which only compares names. */
  tests: TestLists | null
}

export type GradeLogResult = GradedLog | { kind: 'refused'; reason: RefusalReason; message: string }

/** Grades one stored log as the profile's harness does, errors included. Pure; no log content makes it throw. */
export function gradeLog({ profile, parser, log, tests, evalType = 'pass_and_fail' }: GradeLogInput): GradeLogResult {
  const parse = profile.parsers.get(parser)
  if (parse === undefined) return refuseParser(profile, parser)
  const text = decodeLog(log, profile.decoding)
  if (text === null) return { kind: 'refused', reason: 'undecodable-log', message: 'the log is not UTF-8' }
  try {
    if (tests === null) return { kind: 'graded', statuses: parse(text), isFound: true, resolved: null, tests: null }
    const { grading } = profile
    return grading.kind === 'marked'
      ? gradeMarked({ text, parse, tests, grading, evalType })
      : gradeEqualLists(parse(text), tests)
  } catch (error) {
    if (!(error instanceof PythonError)) throw error
    return { kind: 'refused', reason: 'parser-raised', message: `the parser raises ${error.message}` }
  }
}

function gradeMarked({
  text,
  parse,
  tests,
  grading,
  evalType,
}: {
  text: string
  parse: LogParser
  tests: ListedTests
  grading: MarkedGrading
  evalType: EvalType
}): GradedLog {
  const notFound: GradedLog = { kind: 'graded', statuses: new Map(), isFound: false, resolved: false, tests: null }
  const slice = sliceLog(text)
  if (slice === null) return notFound
  let statuses = parse(slice)
  if (statuses.size === 0 && grading.fallsBack) statuses = parse(text)
  if (grading.needsEvidence && !describesItsRun(text, statuses)) return notFound
  const sorted = sortTests({ tests, statuses, rules: grading.resolution, evalType })
  return { kind: 'graded', statuses, isFound: true, resolved: isResolved(sorted), tests: sorted }
}

/** As upstream has it, a test that is listed twice never matches, and one additional passed test fails the patch. */
function gradeEqualLists(raw: StatusMap, tests: ListedTests): GradedLog {
  const statuses = withoutTimings(raw)
  const passed = [...statuses].filter(([, status]) => status === 'PASSED').map(([name]) => name)
  const expected = [...tests.passToPass, ...tests.failToPass].map(withoutTiming)
  return { kind: 'graded', statuses, isFound: true, resolved: isSameBag(passed, expected), tests: null }
}

function isSameBag(left: string[], right: string[]): boolean {
  if (left.length !== right.length) return false
  const sorted = right.toSorted()
  return left.toSorted().every((name, index) => name === sorted[index])
}

function refuseParser({ unported }: LogProfile, parser: string): GradeLogResult {
  const name = JSON.stringify(parser)
  return unported.has(parser)
    ? { kind: 'refused', reason: 'unsupported-parser', message: `unsupported parser ${name}` }
    : { kind: 'refused', reason: 'unknown-parser', message: `unknown parser ${name}` }
}

/** A number above zero. Anchored at the first digit of a run, because matching at every digit takes quadratic time. */
const SOME = `(?<!${DIGIT})(?=${DIGIT}*?[1-9])${DIGIT}+`

/** Phrases by which test runners report that at least one test ran. None of them is pytest's. */
const RAN = new RegExp(
  [
    `Executed [1-9]${DIGIT}* of ${DIGIT}`,
    `TOTAL: [1-9]${DIGIT}* (?:SUCCESS|FAILED)`,
    `${SOME} passing`,
    `Tests:${SPACE}+[1-9]`,
    `Test Suites:${SPACE}+(?:${DIGIT}+ ${WORD}+, )*[1-9]${DIGIT}* total`,
    `${LINE_START}# tests [1-9]`,
    `${SOME} specs?, ${DIGIT}+ failures?`,
    `': ok${LINE_END}`,
  ].join('|'),
  'u',
)

const EXIT_CODE = new RegExp(`>>>>> Test Exit Code:${SPACE}*(-?${DIGIT}+)`, 'u')

/**
 * swebench 5 accepts a log without results only if a runner reports that tests ran, and results without a failure only if the test
 * command did not report a failure. The first exit code in the log counts, even one that the tests printed.
 */
export function describesItsRun(text: string, statuses: StatusMap): boolean {
  if (statuses.size === 0) {
    if (!RAN.test(text)) return false
    // The value is not used here, but a number that Python refuses is an error of the instance.
    readFailedExit(text)
    return true
  }
  const hasFailure = [...statuses.values()].some((status) => status === 'FAILED' || status === 'ERROR')
  return !readFailedExit(text) || hasFailure
}

function readFailedExit(text: string): boolean {
  const code = EXIT_CODE.exec(text)?.[1]
  return code !== undefined && !isZero(code)
}
