import { commandSigns } from '../../domain/gates/command-signs.ts'
import { judgeAudit } from '../../grading/audit/judge-audit.ts'
import { planAudit } from '../../grading/audit/plan-audit.ts'
import { readGateLog } from '../../grading/gate-log.ts'
import { gradeLog, type GradeLogInput, type GradeLogResult } from '../../grading/grade-log.ts'
import { LOG_PROFILES, type LogProfileName } from '../../grading/log-profiles.ts'
import { isInconsistentLog } from '../../grading/log-signs.ts'
import { patchSigns } from '../../grading/patch-signs.ts'
import { judgeRun } from '../../grading/verdict.ts'

/** Parsers of text that agents and their tests produce. Input and result are copied to a thread and back, so they must be plain data. */
export const PARSERS = {
  commandSigns,
  gradeNamedLog,
  isInconsistentLog,
  judgeAudit,
  judgeRun,
  patchSigns,
  planAudit,
  readGateLog,
} satisfies Record<string, (...input: never[]) => unknown>

export type Parsers = typeof PARSERS
export type ParserName = keyof Parsers

/** Same as `gradeLog`, with the profile given by name. */
function gradeNamedLog({
  profile,
  ...input
}: Omit<GradeLogInput, 'profile'> & { profile: LogProfileName }): GradeLogResult {
  return gradeLog({ ...input, profile: LOG_PROFILES[profile] })
}
