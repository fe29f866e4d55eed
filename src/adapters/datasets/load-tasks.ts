import { assertNever, LonghaulError } from '../../contracts/errors.ts'
import type { SuiteSource, Task } from '../../contracts/tasks.types.ts'
import { normalizeRow } from './normalize-row.ts'
import { readRows } from './read-rows.ts'
import { synthesizeSuite } from './synthetic/synthesize.ts'

/** The tasks that a recipe's suite source names, in order.
 *  @throws LonghaulError `Task.Invalid` for a row that could not be graded exactly, `Config.Invalid` for a source that this version cannot read */
export async function loadTasks(source: SuiteSource): Promise<Task[]> {
  switch (source.kind) {
    case 'synthetic':
      return synthesizeSuite(source).map(({ row }) => normalizeRow(row))
    case 'rows': {
      const rows = await readRows(source.path)
      return rows.slice(0, source.limit ?? rows.length).map(({ row, label }) => normalizeRow(row, { label }))
    }
    case 'hub':
      throw new LonghaulError({
        code: 'Config.Invalid',
        message: `Reading ${source.dataset} from a hub is not part of this version; export it as JSONL and use kind: rows with its path`,
      })
    default:
      return assertNever(source)
  }
}
