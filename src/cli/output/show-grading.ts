import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { GradingRecord } from '../../contracts/grading.types.ts'
import { gradingKeys } from '../../contracts/keys.ts'
import type { GradePredictionsResult } from '../../contracts/workflows.types.ts'
import { readSuiteOrigin } from '../../activities/evaluation/suite-origin.ts'
import type { SuiteOrigin } from '../../contracts/suites.types.ts'
import { sayOrigin } from '../../report/suite-table.ts'
import { compareGradings } from '../../activities/grading/close-grading.ts'
import type { VerdictComparison } from '../../domain/statistics/compare-verdicts.ts'
import { isLostToInfrastructure } from '../../domain/grading-rules.ts'
import { changesTable, gradingLines, regradeTables } from '../../report/grading-lines.ts'
import { renderTable } from '../../report/text-report.ts'
import type { Console } from './console.ts'
import { combineExitCodes, EXIT, type ExitCode } from './exit-codes.ts'
import type { Conclude } from '../commands/launch-run.ts'

/** Null where no such run graded patches, or it has not ended. */
export function readGrading(store: ArtifactStore, run: string): Promise<GradingRecord | null> {
  return store.readRecord<GradingRecord>(gradingKeys.result(run))
}

/** What the records beside a grading's own say: where its tasks come from, and what became of first verdicts. */
export interface GradingContext {
  origin: SuiteOrigin | null
  compared: VerdictComparison | null
}

export async function readGradingContext(store: ArtifactStore, record: GradingRecord): Promise<GradingContext> {
  const { suite } = record
  return {
    origin: suite === null ? null : await readSuiteOrigin(store, suite.hash),
    compared: await compareGradings(store, record),
  }
}

export function renderGrading(record: GradingRecord, { origin, compared }: GradingContext): string {
  const tables = [changesTable(record), ...(compared === null ? [] : regradeTables(compared))]
  const shown = tables.filter(({ rows }) => rows.length > 0).map(renderTable)
  const lines = [...gradingLines(record), ...(origin === null ? [] : [sayOrigin(origin)])]
  return [lines.join('\n'), ...shown].join('\n\n')
}

export interface SayGradingInput {
  store: ArtifactStore
  console: Console
  /** Share of patches that must not be lost to infrastructure. */
  minGraded: number
  json: boolean
  /** What else the command does and says once there is a record; its codes are combined with the others. */
  finally?: (record: GradingRecord) => Promise<{ codes: ExitCode[]; lines: string[]; facts: object }>
}

/** Prints what a grading run found. */
export function sayGrading({
  store,
  console,
  minGraded,
  json,
  ...input
}: SayGradingInput): Conclude<GradePredictionsResult> {
  return async ({ run, counts, graded, official, changed }, ended) => {
    const record = await readGrading(store, run)
    // A cluster's store may not be mounted here: the scores came with the result.
    const share = record === null ? 1 : keptShare(record)
    const context = record === null ? null : await readGradingContext(store, record)
    const more = record === null ? null : await input.finally?.(record)
    const exitCode = combineExitCodes([ended, share < minGraded ? EXIT.infra : EXIT.ok, ...(more?.codes ?? [])])
    if (json) {
      const instances = record?.instances ?? null
      const facts = { run, counts, graded, official, changed, instances, ...context, ...more?.facts }
      console.record({ event: 'done', exitCode, ...facts })
      return exitCode
    }
    console.out(
      [
        record === null || context === null
          ? JSON.stringify({ run, counts, graded, official, changed })
          : renderGrading(record, context),
        ...(share < minGraded
          ? [`too little was graded: infrastructure took ${((1 - share) * 100).toFixed(1)} % of the patches`]
          : []),
        ...(more?.lines ?? []),
        `longhaul report ${run}  shows this again`,
      ].join('\n'),
    )
    return exitCode
  }
}

function keptShare({ instances }: GradingRecord): number {
  return instances.length === 0 ? 1 : 1 - instances.filter(isLostToInfrastructure).length / instances.length
}
