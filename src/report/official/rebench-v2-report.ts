import { pythonJson, sortByCodePoint } from './python-json.ts'

/** Lists of names are without timings, as the harness normalises them on both sides. */
export interface V2Outcome {
  taskId: string
  failToPass: readonly string[]
  passToPass: readonly string[]
  /** Null: the harness raised or nothing was run; `error` says why. */
  result: { passed: readonly string[]; matches: boolean; exitCode: number | null; logPath: string } | null
  error: string
}

/** The report of SWE-rebench-V2's own script over every task of the set; no final newline, and not ASCII. */
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
