import { Script } from 'node:vm'
import { gradeLog, type GradeLogInput, type GradeLogResult } from '../grading/grade-log.ts'

/** Some imitated patterns take squared time on lines that no test runner prints; upstream waits for hours there. */
export const GRADE_DEADLINE_MS = 60_000
/** Below this even those end in about a second; the watch costs a thread for each call, a fifth of a small log's grading. */
const WATCHED_BYTES = 32 * 1024

const JOB = Symbol.for('longhaul.gradeWithin')
const call = new Script(`globalThis[Symbol.for(${JSON.stringify(JOB.description)})]()`)

/** As `gradeLog`, but a log that takes too long is refused. A regular expression can be stopped by nothing else in its thread. */
export function gradeWithin(input: GradeLogInput, deadlineMs = GRADE_DEADLINE_MS): GradeLogResult {
  if (input.log.length < WATCHED_BYTES) return gradeLog(input)
  let result: GradeLogResult | undefined
  Object.assign(globalThis, { [JOB]: () => (result = gradeLog(input)) })
  try {
    call.runInThisContext({ timeout: deadlineMs })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error
  }
  const message = `the parser did not end within ${deadlineMs / 1000} s`
  return result ?? { kind: 'refused', reason: 'deadline', message }
}
