/** What Temporal's history says of one execution of a workflow: the part that a person reads beside records. Times in ms since 1970, by the server's clock. */

export interface ExecutionHistory {
  workflowId: string
  runId: string
  /** `RUNNING`, `COMPLETED`, `FAILED`, … as Temporal says it. */
  status: string
  startedMs: number
  closedMs: number | null
  activities: HistoryActivity[]
  /** What happened to the workflow itself, in order. */
  marks: HistoryMark[]
  /** Events of the history, and those of them that were read: the first ones. */
  events: number
  eventsRead: number
}

export interface HistoryActivity {
  activity: string
  queue: string
  /** Empty where the workflow gave none. */
  summary: string
  scheduledMs: number
  /** Of the last attempt, the only one whose beginning the server keeps; null where none has begun. */
  startedMs: number | null
  closedMs: number | null
  /** `pid@host` of the last attempt's worker. */
  worker: string | null
  /** Of the last attempt, from 1; 0 where the history does not say: it was closed before one began. */
  attempt: number
  state: 'queued' | 'backing-off' | 'started' | 'paused' | 'completed' | 'failed' | 'timed-out' | 'cancelled'
  /** What ended it, or the attempt before the last one. */
  failure: { code: string | null; message: string } | null
}

export interface HistoryMark {
  what: 'signal' | 'workflow-task-failed' | 'workflow-task-timed-out' | 'cancel-asked'
  atMs: number
  note: string
}
