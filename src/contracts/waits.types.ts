/** What is waited for: as activities say it in their heartbeats, as workflows say it in a query, as a client reads it. */
import type { FailureCode } from './failure-codes.ts'

/** The dependency that an activity or a workflow waits for. */
export interface Dependency {
  kind: 'policy-server' | 'engine' | 'host' | 'trainer' | 'artifact-store' | 'worker' | 'workflow' | 'person'
  /** Address, queue, directory or id: enough to go and look. */
  name: string
}

/** What goes wrong while something is waited for. */
export interface TransientError {
  code: FailureCode
  message: string
  /** Since when nothing else happened; ms since 1970. */
  sinceMs: number
  /** Tries that ended like this. */
  tries: number
}

/** One open wait of an activity. */
export interface ActivityWait {
  /** In the present: `sampling`, `opening a sandbox`. */
  doing: string
  on: Dependency
  /** ms since 1970; of a dependency that reports progress, the last of it. */
  sinceMs: number
  /** Until then it is expected to last (the deadline of a command or of tests), ms since 1970; null: like any other. */
  expectedUntilMs: number | null
  trouble: TransientError | null
}

/** Failures of attempts that ended alike, and what they were waiting for. */
export interface Failing extends TransientError {
  on: Dependency | null
  doing: string | null
}

/** Heartbeat of every activity. `facts` are the activity's own: turn and phase of an episode, step and loss of a job. */
export interface ActivityHeartbeat {
  facts: object | null
  /** What it waits for; null while it works by itself. */
  wait: ActivityWait | null
  /** The failures of the attempts so far, null while there are none. Ours only: a killed worker leaves no word. */
  failing: Failing | null
  /** Of the attempt that sent it, see `ActivityScope`. Absent from workers of earlier versions. */
  order?: number
}

/** What a workflow itself waits for. Its activities and children answer for themselves. */
export interface WorkflowWait {
  on: Dependency
  /** In the present: `gating 20 tasks of train`. */
  doing: string
  /** ISO time. */
  since: string
  /** What a person can do; null where it is just work under way. */
  toDo: string | null
}

/** Answer of the query `blockers`. */
export interface WorkflowWaits {
  run: string | null
  waits: WorkflowWait[]
}
