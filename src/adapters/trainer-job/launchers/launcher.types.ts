import type { LaunchedJob } from '../job/job-spec.ts'

/** One attempt at one job: another process finds it again by the same values. The caller has claimed the fence. */
export interface Attempt {
  job: LaunchedJob
  fence: number
}

export type AttemptState =
  /** It runs or waits for its place in a queue. `blockedBy`: why it cannot start, where no queue is the reason. */
  | { kind: 'alive'; blockedBy?: string }
  /** The launcher knows no such attempt: it was never launched, or the launcher that claimed it is starting it now. */
  | { kind: 'absent'; how: string }
  /** Gone for good. `code` is what the launcher saw; the trainer's own report outranks it. */
  | { kind: 'over'; code: number | null; how: string }
  /** On another machine that cannot be asked from here. */
  | { kind: 'unknown'; host: string }

/** Where training jobs run. Nothing is remembered between calls that a new process would need. */
export interface Launcher {
  /** False: a job needs this machine's processors, so one waits for the other. */
  readonly isElsewhere: boolean
  /** How often `look` may be asked. */
  readonly pollMs: number
  /** A report on a shared file system shows late on another machine. */
  readonly settleMs: number
  /** From the claim of a fence to the moment from which `look` finds its attempt, at the longest: the deadlines of `launch`. */
  readonly launchMs: number
  /** @throws LonghaulError `Trainer.Unavailable` when it cannot be started now; with `refused: true` where it surely was not */
  launch(attempt: Attempt): Promise<void>
  /** @throws LonghaulError `Trainer.Unavailable` when the scheduler or engine does not answer: never a guess */
  look(attempt: Attempt): Promise<AttemptState>
  /** TERM, and KILL after `graceMs`. True once it is surely gone. */
  stop(attempt: Attempt, graceMs: number): Promise<boolean>
}
