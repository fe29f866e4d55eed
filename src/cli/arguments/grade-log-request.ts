import { type GradeLogResult, gradeLog, type GradeLogInput } from '../../grading/grade-log.ts'
import { isLogProfileName, LOG_PROFILES, type LogProfileName } from '../../grading/log-profiles.ts'
import type { EvalType, ListedTests } from '../../grading/resolution.ts'
import { parse, type ParserPool, ParserOverrun } from '../../adapters/parsing/parser-pool.ts'

/** One log to grade, as in a line of a batch; every field is checked before use. */
export interface GradeLogRequest {
  id?: unknown
  profile?: unknown
  parser?: unknown
  logBase64?: unknown
  /** Set by rows of swebench 5. @default pass_and_fail */
  evalType?: unknown
  failToPass?: unknown
  passToPass?: unknown
}

/** Its message is the answer to the request. */
export class BadRequest extends Error {}

/** @throws BadRequest for an invalid request */
export async function gradeRequest(request: GradeLogRequest): Promise<GradeLogResult> {
  const { profile, parser, logBase64 } = request
  if (typeof profile !== 'string' || !isLogProfileName(profile)) {
    throw new BadRequest(`expected profile to be one of ${Object.keys(LOG_PROFILES).join(', ')}, got ${shown(profile)}`)
  }
  if (typeof parser !== 'string') throw new BadRequest(`expected parser to be a name, got ${shown(parser)}`)
  return gradeWithin({
    profile,
    parser,
    log: decodeBase64(logBase64),
    tests: listedTests(request),
    evalType: evalType(request.evalType),
  })
}

/** Null if neither list is given; then only the parser runs. */
function listedTests({ failToPass, passToPass }: GradeLogRequest): ListedTests | null {
  if (isAbsent(failToPass) && isAbsent(passToPass)) return null
  return { failToPass: testNames('failToPass', failToPass), passToPass: testNames('passToPass', passToPass) }
}

export function testNames(what: string, value: unknown): string[] {
  if (isAbsent(value)) return []
  if (Array.isArray(value) && value.every((name) => typeof name === 'string')) return value
  throw new BadRequest(`expected ${what} to be a list of test names, got ${shown(value)}`)
}

function evalType(value: unknown): EvalType {
  if (isAbsent(value)) return 'pass_and_fail'
  if (value === 'pass_and_fail' || value === 'fail_only') return value
  throw new BadRequest(`expected evalType to be pass_and_fail or fail_only, got ${shown(value)}`)
}

/** Strict, since Node skips invalid characters, so that a different log would be graded. */
function decodeBase64(value: unknown): Uint8Array {
  if (typeof value !== 'string') throw new BadRequest(`expected logBase64 to be base64, got ${shown(value)}`)
  const bytes = Buffer.from(value, 'base64')
  const padding = value.endsWith('==') ? 2 : value.endsWith('=') ? 1 : 0
  const isWhole = value.length % 4 === 0 && bytes.length === (value.length / 4) * 3 - padding
  if (!isWhole) throw new BadRequest('expected logBase64 to be base64')
  return bytes
}

function isAbsent(value: unknown): boolean {
  return value === undefined || value === null
}

function shown(value: unknown): string {
  return (JSON.stringify(value) ?? 'nothing').slice(0, 80)
}

/**
 * The answer's members as JSON text, without the braces. Written from the map itself, since an object would put names that look like
 * numbers first.
 */
export function answerMembers(result: GradeLogResult): string {
  if (result.kind === 'refused') return errorMember(result.message)
  const entries: string[] = []
  for (const [name, status] of result.statuses) entries.push(`${JSON.stringify(name)}:${JSON.stringify(status)}`)
  return `"statusMap":{${entries.join(',')}},"resolved":${String(result.resolved)}`
}

export function errorMember(message: string): string {
  return `"error":${JSON.stringify(message)}`
}

/** A shorter log is parsed in this thread; starting a worker thread would cost a fifth of its grading. */
const THREADED_BYTES = 32 * 1024

/** As `gradeLog`, but a log that takes too much time or memory is refused. */
export async function gradeWithin(
  { profile, ...input }: Omit<GradeLogInput, 'profile'> & { profile: LogProfileName },
  pool: Pick<ParserPool, 'parse'> = { parse },
): Promise<GradeLogResult> {
  if (input.log.length < THREADED_BYTES) return gradeLog({ profile: LOG_PROFILES[profile], ...input })
  try {
    return await pool.parse('gradeNamedLog', { profile, ...input })
  } catch (error) {
    if (!(error instanceof ParserOverrun)) throw error
    return { kind: 'refused', reason: 'deadline', message: error.message }
  }
}
