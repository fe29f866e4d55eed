import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import type { GradingRecord } from '../contracts/grading.types.ts'
import { gradingKeys } from '../contracts/keys.ts'
import type { GradePredictionsResult } from '../contracts/workflows.types.ts'
import { isLostToInfrastructure } from '../domain/grading-rules.ts'
import { changesTable, gradingLines } from '../report/grading-lines.ts'
import { renderTable } from '../report/text-report.ts'
import type { CommandContext } from './command-context.ts'
import { describeFailure } from './describe-failure.ts'
import { combineExitCodes, EXIT, type ExitCode, exitCodeOfOutcome } from './exit-codes.ts'
import type { Followed } from './follow-run.ts'

/** Null where no such run graded patches, or it has not ended. */
export function readGrading(store: ArtifactStore, run: string): Promise<GradingRecord | null> {
  return store.readRecord<GradingRecord>(gradingKeys.result(run))
}

export function renderGrading(record: GradingRecord): string {
  const changes = changesTable(record)
  return [gradingLines(record).join('\n'), ...(changes.rows.length === 0 ? [] : [renderTable(changes)])].join('\n\n')
}

export interface FinishOptions {
  store: ArtifactStore
  /** Share of patches that must not be lost to infrastructure. */
  minGraded: number
  json: boolean
  /** What else the command does and says once there is a record; its codes are combined with the others. */
  finally?: (record: GradingRecord) => Promise<{ codes: ExitCode[]; lines: string[]; facts: object }>
}

/** Prints how a followed grading run ended and says how the command ends. */
export async function finishGrading(
  followed: Followed<GradePredictionsResult>,
  options: FinishOptions,
  console: CommandContext['console'],
): Promise<ExitCode> {
  if (followed.kind === 'detached') return EXIT.interrupted
  const { store, minGraded, json } = options
  const { outcome, interrupted } = followed
  if (outcome.status !== 'completed') {
    const exitCode = interrupted ? EXIT.interrupted : exitCodeOfOutcome(outcome)
    if (json) console.record({ event: 'done', exitCode, outcome })
    console.err(describeFailure(outcome))
    return exitCode
  }
  const { run, counts, graded, official, changed } = outcome.result
  const record = await readGrading(store, run)
  // A cluster's store may not be mounted here: the scores came with the result.
  const share = record === null ? 1 : keptShare(record)
  const more = record === null ? null : await options.finally?.(record)
  const codes = [interrupted ? EXIT.interrupted : EXIT.ok, share < minGraded ? EXIT.infra : EXIT.ok]
  const exitCode = combineExitCodes([...codes, ...(more?.codes ?? [])])
  if (json) {
    const instances = record?.instances ?? null
    console.record({ event: 'done', exitCode, run, counts, graded, official, changed, instances, ...more?.facts })
    return exitCode
  }
  console.out(
    [
      record === null ? JSON.stringify({ run, counts, graded, official, changed }) : renderGrading(record),
      ...(share < minGraded
        ? [`too little was graded: infrastructure took ${((1 - share) * 100).toFixed(1)} % of the patches`]
        : []),
      ...(more?.lines ?? []),
      `longhaul report ${run}  shows this again`,
    ].join('\n'),
  )
  return exitCode
}

function keptShare({ instances }: GradingRecord): number {
  return instances.length === 0 ? 1 : 1 - instances.filter(isLostToInfrastructure).length / instances.length
}
