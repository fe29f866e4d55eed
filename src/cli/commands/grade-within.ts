import { parse, type ParserPool, ParserOverrun } from '../../adapters/parsing/parser-pool.ts'
import { gradeLog, type GradeLogInput, type GradeLogResult } from '../../grading/grade-log.ts'
import { LOG_PROFILES, type LogProfileName } from '../../grading/log-profiles.ts'

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
