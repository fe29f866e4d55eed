import type { GradingProfile, Task } from '../../contracts/tasks.types.ts'

/** What a profile reads of a task to have its tests run. */
export type RunTask = Pick<
  Task,
  'taskId' | 'repo' | 'repoDir' | 'baseCommit' | 'testPatch' | 'installConfig' | 'harness'
>

/** How one patch of one task is applied and its tests are run; what lies in a container is the adapter's business. */
export interface HarnessScript {
  /** Where the patch lies; the apply commands name it. */
  patchPath: string
  /** Tried in order without a shell, in the repository; the first that succeeds applies the patch. */
  applyCommands: string[][]
  /** Run before every attempt but the first; its exit code is ignored. */
  resetCommand: string[] | null
  /** After every attempt failed: success counts as applied. */
  lastCheck: string[] | null
  /** Bash, in the repository. */
  evalScript: string
  /** `merged`: what the script prints, in the order in which it prints. `apart`: standard output of applying and testing, then
   *  their standard error. */
  output: 'merged' | 'apart'
  /** Further files, by absolute path. */
  files: Record<string, string>
  environment: Record<string, string>
}

/** Where binary files of a row lie that a patch cannot carry, and where they belong in the repository. */
export interface StagedAsset {
  path: string
}

export interface PlanOptions {
  /** False: the repository is tested as it is, as the gate's empty check does. */
  hasPatch: boolean
  /** Files of the row that could be had; those without bytes are left out. */
  assets?: readonly StagedAsset[]
}

/** One upstream harness as far as containers see it. Log and verdict have their own table, `LOG_PROFILES`. */
export interface RunProfile {
  name: GradingProfile
  /** Upstream's repository or package, and its version. */
  upstream: string
  /** Raised by hand when our imitation changes what it runs or finds. */
  revision: number
  /** @throws LonghaulError `Task.Invalid` for a task that the harness could not run */
  plan(task: RunTask, options: PlanOptions): HarnessScript
}
