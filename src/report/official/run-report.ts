import type { GradingProfile } from '../../contracts/tasks.types.ts'
import { guessFailure } from './failure-reasons.ts'
import { pythonJson, sortByCodePoint } from './python-json.ts'

/** What a SWE-bench harness knows about one prediction when it writes its run report. */
export interface OfficialPrediction {
  taskId: string
  model: string
  /** Its patch is `null` or `""`; the harness never runs it. */
  isEmpty: boolean
  /** From its `report.json`; null if there is none, which is an error. */
  resolved: boolean | null
  /** Texts of `test_output.txt` and `run_instance.log`, if they exist; used only for swebench 5's guesses. */
  logs: readonly string[]
}

export interface RunReportInput {
  profile: Exclude<GradingProfile, 'rebench-v2'>
  /** Every task of the data set. */
  taskIds: readonly string[]
  /** One per id, in the order of the file. */
  predictions: readonly OfficialPrediction[]
}

/** The run report of swebench 4.x, the fork and swebench 5, byte for byte; each with its own order of keys. */
export function officialRunReport({ profile, taskIds, predictions }: RunReportInput): string {
  const inSet = new Set(taskIds)
  const known = predictions.filter(({ taskId }) => inSet.has(taskId))
  const idsOf = (choose: (prediction: OfficialPrediction) => boolean): string[] =>
    sortByCodePoint(known.filter(choose).map(({ taskId }) => taskId))
  const given = new Set(predictions.map(({ taskId }) => taskId))
  const empty = idsOf(({ isEmpty }) => isEmpty)
  const completed = idsOf(({ isEmpty, resolved }) => !isEmpty && resolved !== null)
  const resolvedIds = idsOf(({ isEmpty, resolved }) => !isEmpty && resolved === true)
  const unresolved = idsOf(({ isEmpty, resolved }) => !isEmpty && resolved === false)
  const errors = idsOf(({ isEmpty, resolved }) => !isEmpty && resolved === null)
  const triage = profile === 'swebench-5' ? triageOf(known) : null
  const report = {
    total_instances: taskIds.length,
    submitted_instances: predictions.length,
    completed_instances: completed.length,
    resolved_instances: resolvedIds.length,
    unresolved_instances: unresolved.length,
    ...(triage === null
      ? {}
      : {
          infra_failure_instances: triage.environment.length,
          ambiguous_failure_instances: triage.ambiguous.length,
        }),
    empty_patch_instances: empty.length,
    error_instances: errors.length,
    completed_ids: completed,
    incomplete_ids: sortByCodePoint(taskIds.filter((taskId) => !given.has(taskId))),
    empty_patch_ids: empty,
    submitted_ids: sortByCodePoint(given),
    resolved_ids: resolvedIds,
    unresolved_ids: unresolved,
    ...(triage === null
      ? {}
      : {
          infra_failure_ids: triage.environment,
          ambiguous_failure_ids: triage.ambiguous,
          failure_reasons: triage.reasons,
        }),
    error_ids: errors,
    schema_version: 2,
    // swebench 5 adds these keys with an engine, 4.x without one. Our graders leave nothing behind.
    ...(triage === null ? {} : { unstopped_instances: 0, unstopped_containers: [], unremoved_images: [] }),
  }
  return `${pythonJson(report, { indent: 4 })}\n`
}

/** `<first prediction's model>.<run id>.json`, each slash written as two underscores. */
export function runReportName({ model, runId }: { model: string; runId: string }): string {
  return `${officialModelName(model)}.${runId}.json`
}

export function officialModelName(model: string): string {
  return model.replaceAll('/', '__')
}

function triageOf(predictions: readonly OfficialPrediction[]) {
  const found = predictions
    .filter(({ isEmpty, resolved }) => !isEmpty && resolved !== true)
    .flatMap(({ taskId, logs }) => {
      const guess = guessFailure(logs)
      return guess === null ? [] : [{ taskId, ...guess }]
    })
  const ids = (tier: string) => sortByCodePoint(found.filter((one) => one.tier === tier).map(({ taskId }) => taskId))
  const reasonOf = new Map(found.map(({ taskId, reason }) => [taskId, reason]))
  return {
    environment: ids('environment'),
    ambiguous: ids('ambiguous'),
    reasons: Object.fromEntries(sortByCodePoint(reasonOf.keys()).map((taskId) => [taskId, reasonOf.get(taskId)])),
  }
}
