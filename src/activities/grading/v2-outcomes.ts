import { parse } from '../../adapters/parsing/parser-pool.ts'
import type { VerdictRecord } from '../../contracts/episodes.types.ts'
import type { GradingInstance, ShortVerdict } from '../../contracts/grading.types.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { withoutTiming, withoutTimings } from '../../grading/test-names.ts'
import type { V2Outcome } from '../../report/official/rebench-v2-report.ts'

/** What is read of one instance to write its harness's files. */
export interface GradedFacts {
  instance: GradingInstance
  task: Task
  verdict: ShortVerdict
  /** Null where no container ended. */
  log: Uint8Array | null
  record: VerdictRecord | null
}

/** @returns where it was written */
export type WriteFile = (path: string, content: string | Uint8Array) => Promise<string>

/** What SWE-rebench-V2's script would say of every task of the set; writes the logs that it would have left. */
export async function outcomesOfV2({
  tasks,
  graded,
  write,
}: {
  tasks: readonly Task[]
  graded: readonly GradedFacts[]
  write: WriteFile
}): Promise<V2Outcome[]> {
  const byTask = new Map(graded.map((one) => [one.task.taskId, one]))
  const outcomes: V2Outcome[] = []
  for (const task of tasks) outcomes.push(await outcomeOf(byTask.get(task.taskId), task, write))
  return outcomes
}

/** Tasks without a prediction are errors there: the gold patch is never taken for them. */
async function outcomeOf(graded: GradedFacts | undefined, task: Task, write: WriteFile): Promise<V2Outcome> {
  const { taskId } = task
  const lists = {
    taskId,
    failToPass: task.failToPass.map(withoutTiming),
    passToPass: task.passToPass.map(withoutTiming),
  }
  if (graded === undefined) return { ...lists, result: null, error: `Task ${taskId} has no prediction.` }
  const { instance, log, record } = graded
  if (instance.patch === null) {
    const error = instance.fault ?? `Task ${taskId} missing patch/test_patch.`
    return { ...lists, result: null, error }
  }
  if (log === null) return { ...lists, result: null, error: graded.verdict.reason ?? 'not graded' }
  const read = await parse('gradeNamedLog', {
    profile: 'rebench-v2',
    parser: task.installConfig.logParser,
    log,
    tests: task,
  })
  if (read.kind === 'refused') return { ...lists, result: null, error: read.message }
  const logPath = `logs/${taskId}_log.txt`
  // Python translates line ends when it reads a program's output as text.
  await write(logPath, Buffer.from(log).toString().replaceAll(/\r\n?/g, '\n'))
  const passed = [...withoutTimings(read.statuses)].flatMap(([name, status]) => (status === 'PASSED' ? [name] : []))
  const exitCode = record?.provenance?.exitCode ?? null
  return { ...lists, result: { passed, matches: read.resolved === true, exitCode, logPath }, error: '' }
}
