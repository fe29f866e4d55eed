import type { GradingProfile } from '../../contracts/tasks.types.ts'
import { guessFailure } from './failure-reasons.ts'
import { pythonJson, sortByCodePoint } from './python-json.ts'

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
