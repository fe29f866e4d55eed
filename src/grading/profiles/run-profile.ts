import type { GradingProfile, Task } from '../../contracts/tasks.types.ts'

/** The fields of a task that a profile needs to run its tests. */
export type RunTask = Pick<
  Task,
  'taskId' | 'repo' | 'repoDir' | 'baseCommit' | 'testPatch' | 'installConfig' | 'harness'
>

/** How to apply one patch and run the tests of its task; the adapter places the files in the container. */
export interface HarnessScript {
  /** Path of the patch; the apply commands name it. */
  patchPath: string
  /** Tried in order without a shell, in the repository; the first that succeeds applies the patch. */
  applyCommands: string[][]
  /** Runs before every attempt except the first; its exit code is ignored. */
  resetCommand: string[] | null
  /** Runs after all attempts failed; success counts as applied. */
  lastCheck: string[] | null
  /** Bash, run in the repository. */
  evalScript: string
  /** `merged`: both streams of the script, in the order written. `apart`: standard output of applying and testing, then their
   *  standard error. */
  output: 'merged' | 'apart'
  /** Additional files by absolute path. */
  files: Record<string, string>
  environment: Record<string, string>
}

/** A binary file of a row that a patch cannot carry; `path` is its place in the repository. */
export interface StagedAsset {
  path: string
}

export interface PlanOptions {
  /** False: tests the repository without a patch, as the gate's empty check does. */
  hasPatch: boolean
  /** The row's files that are available; files without bytes are left out. */
  assets?: readonly StagedAsset[]
}

/** The part of an upstream harness that runs in containers. `LOG_PROFILES` has its logs and verdicts. */
export interface RunProfile {
  name: GradingProfile
  /** Upstream's repository or package, and its version. */
  upstream: string
  /** Raised by hand whenever the imitation changes what it runs or finds. */
  revision: number
  /** @throws LonghaulError `Task.Invalid` for a task that the harness could not run */
  plan(task: RunTask, options: PlanOptions): HarnessScript
}
