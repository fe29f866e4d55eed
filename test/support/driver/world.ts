/** What commands may do beyond their own run, and what they remember for later commands. */
import type { coresdk, temporal } from '@temporalio/proto'
import type { ActivityEnd, ActivityRun } from './activity-run.ts'
import { type Command, decode } from './protos.ts'
import type { RunStart, RunStatus, WorkflowRun } from './workflow-run.ts'

export interface World {
  nowMs(): number
  after(delayMs: number, act: () => void): () => void
  scheduleActivity(input: {
    run: WorkflowRun
    command: coresdk.workflow_commands.IScheduleActivity
    summary: string | null
    onEnd: (end: ActivityEnd) => void
  }): ActivityRun
  /** Null where the id is taken and its reuse policy refuses. */
  startChild(
    start: Omit<RunStart, 'runId' | 'firstRunId' | 'continuedFrom'>,
    reuse: temporal.api.enums.v1.WorkflowIdReusePolicy,
  ): WorkflowRun | null
  continueAsNew(run: WorkflowRun, command: coresdk.workflow_commands.IContinueAsNewWorkflowExecution): string
  /** False where no open execution has that id. */
  signal(workflowId: string, signal: coresdk.workflow_activation.ISignalWorkflow): boolean
  cancel(workflowId: string, reason: string): boolean
  close(run: WorkflowRun, status: RunStatus): void
}

/** One command in its place. */
export interface Step {
  world: World
  run: WorkflowRun
  command: Command
  taskCompletedEventId: number
  /** The run ends in this very task: the server drops what it would tell other workflows. */
  isLast: boolean
}

export function summaryOf(command: Command): string | null {
  const summary = command.userMetadata?.summary
  return summary ? String(decode(summary)) : null
}

/** What commands leave behind for later ones, by kind and sequence number: ids of events, cancellation types. */
const memory = new WeakMap<WorkflowRun, Map<string, number>>()

export function remember(run: WorkflowRun, kind: string, seq: number, value: number): void {
  const notes = memory.get(run) ?? new Map<string, number>()
  memory.set(run, notes.set(`${kind} ${seq}`, value))
}

/** 0 where nothing was remembered. */
export function recall(run: WorkflowRun, kind: string, seq: number): number {
  return memory.get(run)?.get(`${kind} ${seq}`) ?? 0
}
