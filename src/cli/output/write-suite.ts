import type { ImportedSuite } from '../../contracts/suites.types.ts'
import { importSuite } from '../../adapters/datasets/import-suite.ts'
import type { GateReport } from '../../contracts/gates.types.ts'
import { writeResult } from './require-writable.ts'

/** Writes rows as JSON Lines, and the record of their origin beside them. */
export async function writeSuite({
  output,
  suite,
  rows,
}: {
  output: string
  suite: ImportedSuite
  rows: readonly unknown[]
}): Promise<void> {
  await writeResult(output, rows.map((row) => `${JSON.stringify(row)}\n`).join(''))
  await writeResult(`${output}.suite.json`, `${JSON.stringify(suite, null, 2)}\n`)
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
