/** Grades one log with an official harness and with Longhaul: null if both agree, otherwise the difference. */
import { gradeLog, type GradeLogResult } from '../../../src/grading/grade-log.ts'
import { LOG_PROFILES, type LogProfileName } from '../../../src/grading/log-profiles.ts'
import { PYTHON_ERRORS } from '../../../src/grading/parsers/python-text.ts'
import type { TestLists } from '../../../src/grading/resolution.ts'
import type { LogCase } from './log-cases.ts'
import type { OracleAnswer } from './oracle.ts'

export interface Difference {
  id: number
  parser: string
  what: 'error' | 'statusMap' | 'resolved' | 'tests'
  upstream: unknown
  ours: unknown
}

export type Outcome = 'error' | 'parser alone' | 'not found or empty' | 'resolved' | 'unresolved'

export interface Comparison {
  outcome: Outcome
  difference: Difference | null
}

export function compareCase(profile: LogProfileName, one: LogCase, answer: OracleAnswer): Comparison {
  const ours = gradeLog({ ...one, profile: LOG_PROFILES[profile] })
  const differ = (what: Difference['what'], upstream: unknown, mine: unknown): Comparison => ({
    outcome: 'error',
    difference: { id: one.id, parser: one.parser, what, upstream, ours: mine },
  })
  if (ours.kind === 'refused' || answer.error !== undefined) {
    const type = answer.error?.split(':')[0]
    if (ours.kind !== 'refused' || type === undefined || !exceptionTypes(ours).includes(type)) {
      return differ('error', answer.error, ours)
    }
    return { outcome: 'error', difference: null }
  }
  const upstream = new Map(answer.statusMap)
  const isSameMap =
    upstream.size === ours.statuses.size && [...upstream].every(([name, status]) => ours.statuses.get(name) === status)
  if (!isSameMap) return differ('statusMap', answer.statusMap, [...ours.statuses])
  if (answer.resolved !== ours.resolved) return differ('resolved', answer.resolved, ours.resolved)
  const lists = officialLists(answer.tests)
  if (JSON.stringify(lists) !== JSON.stringify(ours.tests)) return differ('tests', lists, ours.tests)
  return { outcome: outcomeOf(ours), difference: null }
}

/** The exception types that a refusal stands for. */
function exceptionTypes(refused: Extract<GradeLogResult, { kind: 'refused' }>): string[] {
  switch (refused.reason) {
    case 'undecodable-log':
      return ['UnicodeDecodeError']
    case 'unknown-parser':
      return ['KeyError', 'ValueError']
    case 'parser-raised':
      return PYTHON_ERRORS.filter((type) => refused.message.includes(`raises ${type}:`))
    case 'unsupported-parser':
    case 'deadline':
      return []
  }
}

function officialLists(tests: OracleAnswer['tests']): TestLists | null {
  const failToPass = tests?.['FAIL_TO_PASS']
  const passToPass = tests?.['PASS_TO_PASS']
  return failToPass === undefined || passToPass === undefined ? null : { failToPass, passToPass }
}

function outcomeOf(ours: Extract<GradeLogResult, { kind: 'graded' }>): Outcome {
  if (ours.resolved === null) return 'parser alone'
  if (ours.statuses.size === 0) return 'not found or empty'
  return ours.resolved ? 'resolved' : 'unresolved'
}
