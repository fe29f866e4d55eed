import type { GradingProfile } from '../../contracts/tasks.types.ts'

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

interface OfficialTestList {
  success: readonly string[]
  failure: readonly string[]
}

interface InstanceReportInput {
  profile: Exclude<GradingProfile, 'rebench-v2'>
  taskId: string
  resolved: boolean
  /** Null if the harness found no results in the log. */
  tests: { failToPass: OfficialTestList; passToPass: OfficialTestList } | null
  /** Text of the test output, from which swebench 5 guesses why there are no results. */
  log: string
}

/** `report.json` of one graded instance, byte for byte: no final newline. An instance that ends with an error has no report. */
export function officialInstanceReport({ profile, taskId, resolved, tests, log }: InstanceReportInput): string {
  const isFive = profile === 'swebench-5'
  const guess = isFive && tests === null ? guessFailure([log]) : null
  const none = { success: [], failure: [] }
  const list = ({ success, failure }: OfficialTestList) => ({ success, failure })
  const report = {
    patch_is_None: false,
    patch_exists: true,
    patch_successfully_applied: tests !== null,
    resolved,
    ...(isFive ? { infra_failure: guess?.tier === 'environment' } : {}),
    ...(guess === null ? {} : { infra_failure_reason: guess.reason }),
    ...(tests === null
      ? {}
      : {
          tests_status: {
            FAIL_TO_PASS: list(tests.failToPass),
            PASS_TO_PASS: list(tests.passToPass),
            FAIL_TO_FAIL: none,
            PASS_TO_FAIL: none,
          },
        }),
  }
  return pythonJson({ [taskId]: report }, { indent: 4 })
}

/** The names have no timings, as the harness removes them on both sides. */
export interface V2Outcome {
  taskId: string
  failToPass: readonly string[]
  passToPass: readonly string[]
  /** Null if the harness raised or ran nothing; `error` says why. */
  result: { passed: readonly string[]; matches: boolean; exitCode: number | null; logPath: string } | null
  error: string
}

/** The report of SWE-rebench-V2's own script over every task of the set; without a final newline, and not limited to ASCII. */
export function rebenchV2Report({
  maxWorkers,
  outcomes,
}: {
  maxWorkers: number
  outcomes: readonly V2Outcome[]
}): string {
  const report = {
    max_workers: maxWorkers,
    total: outcomes.length,
    all_ok: outcomes.every(({ result }) => result?.matches === true),
    items: outcomes.map(itemOf),
  }
  return pythonJson(report, { indent: 2, ascii: false })
}

function itemOf({ taskId, failToPass, passToPass, result, error }: V2Outcome): object {
  const kept = [...new Set(passToPass)]
  if (result === null) {
    return {
      instance_id: taskId,
      from_fail_to_pass: [],
      failed_from_pass_to_pass: sortByCodePoint(kept),
      error,
    }
  }
  const passed = new Set(result.passed)
  return {
    instance_id: taskId,
    from_fail_to_pass: sortByCodePoint([...new Set(failToPass)].filter((name) => passed.has(name))),
    failed_from_pass_to_pass: sortByCodePoint(kept.filter((name) => !passed.has(name))),
    passed_match: result.matches,
    exit_code: result.exitCode,
    log_path: result.logPath,
    error: '',
  }
}

/** swebench 5's guess, from the logs, why an instance failed; never changes a verdict. */
export interface FailureGuess {
  reason: string
  tier: 'environment' | 'ambiguous'
}

/** In order of precedence: the first pattern that occurs anywhere counts. */
const SIGNATURES: readonly (FailureGuess & { pattern: RegExp })[] = [
  {
    reason: 'browser_launch_failed',
    tier: 'environment',
    pattern: /Failed to launch|Failed to connect to the bus/,
  },
  {
    reason: 'display_unavailable',
    tier: 'environment',
    pattern: /cannot open display|Missing X server|unable to open X display/,
  },
  {
    reason: 'out_of_memory',
    tier: 'environment',
    // `Killed` as a whole line, which ends only with a line feed in Python.
    pattern: /Cannot allocate memory|OutOfMemoryError|(?<![^\n])Killed(?![^\n])/,
  },
  {
    reason: 'container_unavailable',
    tier: 'environment',
    pattern: /Error response from daemon|Cannot connect to the Docker daemon/,
  },
  {
    reason: 'network_unreachable',
    tier: 'environment',
    pattern: /Could not resolve host|Temporary failure in name resolution/,
  },
  {
    reason: 'missing_module',
    tier: 'ambiguous',
    pattern: /Cannot find module|MODULE_NOT_FOUND|ModuleNotFoundError/,
  },
  { reason: 'no_tests_collected', tier: 'ambiguous', pattern: /no tests ran|collected 0 items/ },
  { reason: 'tests_timed_out', tier: 'ambiguous', pattern: /Timeout error: \p{Nd}+ seconds exceeded/u },
]

/** @param logs texts of the existing files, in order: the test output for `report.json`, also the instance's log for the run report */
export function guessFailure(logs: readonly string[]): FailureGuess | null {
  const text = logs.map((log) => log.replaceAll(/\r\n?/g, '\n')).join('\n')
  const found = SIGNATURES.find(({ pattern }) => pattern.test(text))
  return found === undefined ? null : { reason: found.reason, tier: found.tier }
}

/**
 * JSON as Python's `json.dumps` writes it, by default with everything beyond printable ASCII escaped. Needed for files that must equal
 * those of the harnesses byte for byte.
 */
export function pythonJson(value: unknown, { indent, ascii = true }: { indent: number; ascii?: boolean }): string {
  const json = JSON.stringify(value, null, indent)
  return ascii ? json.replaceAll(/[\u007F-\uFFFF]/g, escapeUnit) : json
}

/** Python sorts text by code point, JavaScript by UTF-16 unit; the orders differ beyond the first plane. */
export function sortByCodePoint(texts: Iterable<string>): string[] {
  return [...texts].sort(compareCodePoints)
}

function compareCodePoints(left: string, right: string): number {
  for (let at = 0; ; ) {
    const a = left.codePointAt(at)
    const b = right.codePointAt(at)
    if (a !== b) return (a ?? -1) - (b ?? -1)
    if (a === undefined) return 0
    at += a > 0xffff ? 2 : 1
  }
}

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
}
