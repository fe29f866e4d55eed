import type { LaunchedJob } from '../job/job-spec.ts'

/** One attempt at one job. Another process finds it by the same values. The caller has claimed the fence. */
export interface Attempt {
  job: LaunchedJob
  fence: number
}

export type AttemptState =
  /** It runs or waits in a queue. `queuedBy` is the queue's reason, with a remedy; `blockedBy` one that waiting cannot end. */
  | { kind: 'alive'; queuedBy?: string; blockedBy?: string }
  /** The launcher knows no such attempt: it was never launched, or its launcher is starting it now. */
  | { kind: 'absent'; how: string }
  /** Ended for good. `code` is what the launcher saw; the trainer's own report takes precedence. */
  | { kind: 'over'; code: number | null; how: string }
  /** On another machine that this one cannot query. */
  | { kind: 'unknown'; host: string }

/** Where training jobs run. A launcher keeps no state that a new process would need. */
export interface Launcher {
  /** False if a job uses this machine's processors, so that jobs run one at a time. */
  readonly isElsewhere: boolean
  /** Minimum interval between calls of `look`. */
  readonly pollMs: number
  /** Delay until a report on a shared file system is visible on another machine. */
  readonly settleMs: number
  /** Maximum time from the claim of a fence until `look` finds its attempt, which is the sum of the deadlines in `launch`. */
  readonly launchMs: number
  /** @throws LonghaulError `Trainer.Unavailable` if it cannot be started now; with `refused: true` if it was certainly not started */
  launch(attempt: Attempt): Promise<void>
  /** @throws LonghaulError `Trainer.Unavailable` if the scheduler or engine does not answer; it never guesses */
  look(attempt: Attempt): Promise<AttemptState>
  /** Sends TERM, and KILL after `graceMs`. Returns true once the attempt is certainly gone. */
  stop(attempt: Attempt, graceMs: number): Promise<boolean>
}
