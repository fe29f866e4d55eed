import type { GradingProfile } from '../../contracts/tasks.types.ts'
import { guessFailure } from './failure-reasons.ts'
import { pythonJson } from './python-json.ts'

export interface OfficialTestList {
  success: readonly string[]
  failure: readonly string[]
}

export interface InstanceReportInput {
  profile: Exclude<GradingProfile, 'rebench-v2'>
  taskId: string
  resolved: boolean
  /** Null where the harness found no results in the log. */
  tests: { failToPass: OfficialTestList; passToPass: OfficialTestList } | null
  /** Text of the test output: swebench 5 guesses from it why there are no results. */
  log: string
}

/** `report.json` of one graded instance, byte for byte: no final newline. An instance that ends with an error has none. */
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
