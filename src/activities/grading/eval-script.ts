import { LonghaulError } from '../../contracts/errors.ts'
import type { GradingProfile, Task } from '../../contracts/tasks.types.ts'
import { hasParser } from '../../grading/log-profiles.ts'
import { RUN_PROFILES } from '../../grading/profiles/run-profiles.ts'

/** The script that the task's harness runs, with every file that its row points at. */
export function evalScriptOf(task: Task): string {
  const assets = task.harness?.assets ?? []
  return RUN_PROFILES[task.gradingProfile].plan(task, { hasPatch: true, assets }).evalScript
}

/**
 * The profile that a task is graded with: its own, or another that can run it.
 * @throws LonghaulError `Config.Invalid` where the task's row lacks what that harness reads
 */
export function profileFor(task: Task, asked: GradingProfile | null): GradingProfile {
  if (asked === null || asked === task.gradingProfile) return task.gradingProfile
  const fault = faultOf(task, asked)
  if (fault === null) return asked
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected tasks that ${asked} can grade, but it cannot grade ${task.taskId}, a row of ${task.gradingProfile}: ${fault}`,
    details: { task: task.taskId, profile: asked },
  })
}

function faultOf(task: Task, profile: GradingProfile): string | null {
  const { logParser } = task.installConfig
  if (!hasParser(profile, logParser)) return `it has no parser ${JSON.stringify(logParser)}`
  try {
    evalScriptOf({ ...task, gradingProfile: profile })
    return null
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
