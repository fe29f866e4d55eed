/** A test or suite that did not run, `todo` and `xfail` included. */
export interface Skip {
  test: string
  reason: string
}

export interface Failure {
  /** Its title, or `WHOLE_FILE`. */
  test: string
  error: string
}

/** What a test file proved. */
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
  /** Of the processors, by its processes; what detached itself is missing. Absent where it is not known. */
  cpuSeconds?: number
}

/** In a failure: not one test, but how the file began or ended. */
export const WHOLE_FILE = '(the file)'
