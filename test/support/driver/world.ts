/** Effects of commands beyond their own run, and state that they keep for later commands. */
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
  /** How long the server takes to start a child: many at once wait for each other. */
  startDelayMs(workflowId: string): number
  /** Null if the id is taken and its reuse policy refuses. */
  startChild(
    start: Omit<RunStart, 'runId' | 'firstRunId' | 'continuedFrom'>,
    reuse: temporal.api.enums.v1.WorkflowIdReusePolicy,
  ): WorkflowRun | null
  continueAsNew(run: WorkflowRun, command: coresdk.workflow_commands.IContinueAsNewWorkflowExecution): string
  /** False if no open execution has the id. */
  signal(workflowId: string, signal: coresdk.workflow_activation.ISignalWorkflow): boolean
  cancel(workflowId: string, reason: string): boolean
  close(run: WorkflowRun, status: RunStatus): void
}

/** One command with its context. */
export interface Step {
  world: World
  run: WorkflowRun
  command: Command
  taskCompletedEventId: number
  /** The run ends in this task: the server drops its messages to other workflows. */
  isLast: boolean
}

export function summaryOf(command: Command): string | null {
  const summary = command.userMetadata?.summary
  return summary ? String(decode(summary)) : null
}

/** State that commands keep for later ones, by kind and sequence number: ids of events, cancellation types. */
const memory = new WeakMap<WorkflowRun, Map<string, number>>()

export function remember(run: WorkflowRun, kind: string, seq: number, value: number): void {
  const notes = memory.get(run) ?? new Map<string, number>()
  memory.set(run, notes.set(`${kind} ${seq}`, value))
}

/** 0 if nothing was remembered. */
export function recall(run: WorkflowRun, kind: string, seq: number): number {
  return memory.get(run)?.get(`${kind} ${seq}`) ?? 0
}
