/** A test or suite that did not run, including `todo` and `xfail`. */
export interface Skip {
  test: string
  reason: string
}

export interface Failure {
  /** Its title, or `WHOLE_FILE`. */
  test: string
  error: string
}

/** The result of a test file. */
export interface FileJudgement {
  passed: number
  failures: Failure[]
  /** Each must be reviewed. */
  skips: Skip[]
}

export interface FileResult extends FileJudgement {
  /** Relative to the repository. */
  file: string
  seconds: number
  /** CPU time of its processes, without detached ones. Absent if unknown. */
  cpuSeconds?: number
}

/** Names a failure of the file's start or end, and not of one test. */
export const WHOLE_FILE = '(the file)'
