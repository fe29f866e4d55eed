import { importSuite } from '../../adapters/datasets/import-suite.ts'
import type { GateReport } from '../../contracts/gates.types.ts'
import { writeSuite } from './write-suite.ts'

/** The rows of a file whose tasks passed, as published and in order, as a suite of their own with the record of an import. */
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
