import { rename, rm } from 'node:fs/promises'
import type { ImportedSuite } from '../../contracts/suites.types.ts'
import { importSuite } from '../../adapters/datasets/import-suite.ts'
import type { GateReport } from '../../contracts/gates.types.ts'
import { requireWritable, writeResult } from './require-writable.ts'

/** Of the origin of a file's rows. */
function recordOf(output: string): string {
  return `${output}.suite.json`
}

/** Checks both files before the work. @throws LonghaulError `Config.Invalid` */
export async function requireWritableSuite(output: string | undefined): Promise<void> {
  if (output === undefined) return
  await requireWritable({ files: { '--output': output, '--output, with its record beside it,': recordOf(output) } })
}

/** Writes rows as JSON Lines, and the record of their origin beside them: both or, on a full disk, none. */
export async function writeSuite({
  output,
  suite,
  rows,
}: {
  output: string
  suite: ImportedSuite
  rows: readonly unknown[]
}): Promise<void> {
  const record = recordOf(output)
  // Its room is taken first. The rename needs none.
  const staged = `${record}.${process.pid}.new`
  try {
    await writeResult(staged, `${JSON.stringify(suite, null, 2)}\n`)
    await writeResult(output, rows.map((row) => `${JSON.stringify(row)}\n`).join(''))
    await rename(staged, record)
  } catch (error) {
    await rm(staged, { force: true })
    throw error
  }
}

/** Writes the rows of a file whose tasks passed, as published and in order, as a suite with the record of an import. */
export async function writePassedRows({
  path,
  report,
  output,
}: {
  path: string
  report: GateReport
  output: string
}): Promise<void> {
  const ids = report.gates.filter(({ outcome }) => outcome === 'passed').map(({ taskId }) => taskId)
  const { suite, kept } = await importSuite({ source: { kind: 'file', path }, filters: [{ kind: 'ids', ids }] })
  await writeSuite({ output, suite, rows: kept.map(({ row }) => row) })
}
