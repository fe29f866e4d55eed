import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import type { ImportedSuite, RowsFile } from '../../contracts/suites.types.ts'
import type { Task } from '../../contracts/tasks.types.ts'

/**
 * What a file of rows is: its name, its hash, and the record of the import that wrote it. A record that does not list every task of
 * the file is of other rows, and says nothing.
 */
export async function readRowsFile(path: string, tasks: readonly Task[]): Promise<RowsFile> {
  const sha256 = createHash('sha256')
    .update(await readFile(path))
    .digest('hex')
  const record = await readImport(`${path}.suite.json`)
  const known = new Set((record?.tasks ?? []).map(({ taskId, rowHash }) => `${taskId} ${rowHash}`))
  const isOfTheseRows = tasks.every(({ taskId, rowHash }) => known.has(`${taskId} ${rowHash}`))
  return { name: basename(path), sha256, imported: isOfTheseRows ? record : null }
}

async function readImport(path: string): Promise<ImportedSuite | null> {
  try {
    const record = JSON.parse(await readFile(path, 'utf8')) as ImportedSuite
    return record.schema === 'longhaul.imported-suite/1' ? record : null
  } catch {
    return null
  }
}
