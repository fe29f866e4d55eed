import { assertNever, LonghaulError } from '../../contracts/errors.ts'
import type { SuiteSource, Task } from '../../contracts/tasks.types.ts'
import { isSupported } from './import-suite.ts'
import { normalizeRow } from './normalize-row.ts'
import { readRows } from './read-rows.ts'
import { synthesizeSuite } from './synthetic/synthesize.ts'

/** The tasks that a recipe's suite source names, in order.
 *  @throws LonghaulError `Task.Invalid` for a row that could not be graded exactly, `Config.Invalid` for a source or a harness that this version cannot run */
export async function loadTasks(source: SuiteSource): Promise<Task[]> {
  switch (source.kind) {
    case 'synthetic':
      return synthesizeSuite(source).map(({ row }) => normalizeRow(row))
    case 'rows': {
      const rows = await readRows(source.path)
      return rows.slice(0, source.limit ?? rows.length).map(({ row, label }) => runnable(normalizeRow(row, { label })))
    }
    case 'hub':
      throw new LonghaulError({
        code: 'Config.Invalid',
        message: `Expected rows that were imported: longhaul tasks import ${source.dataset} --revision ${source.revision} --split ${source.split} --output FILE.jsonl, then kind: rows with that path`,
      })
    default:
      return assertNever(source)
  }
}

/** Other harnesses' logs are graded (`longhaul grade-log`), but their tests cannot be run in containers yet. */
function runnable(task: Task): Task {
  if (task.gradingProfile === 'fork-4.0.3' && isSupported(task)) return task
  const { taskId, gradingProfile, installConfig } = task
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: 'Expected tasks whose tests this version can run: those of SWE-rebench, with a log parser that it has',
    details: { task: taskId, profile: gradingProfile, parser: installConfig.logParser },
  })
}
