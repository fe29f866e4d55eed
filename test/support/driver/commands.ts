/** The server's handling of the commands of one workflow task: events in the history, effects in the simulated world. */
import type { coresdk } from '@temporalio/proto'
import { WORKER_IDENTITY } from '../history-builder.ts'
import { answerNeverScheduled, cancelActivity, scheduleActivity } from './activity-commands.ts'
import { answerNeverStarted, cancelChild, startChild } from './child-commands.ts'
import { cancelled, complete, continueAsNew, fail } from './closing-commands.ts'
import { answerUpdate, cancelExternal, signalExternal } from './message-commands.ts'
import { type Command, durationMs, encode } from './protos.ts'
import type { WorkflowRun } from './workflow-run.ts'
import { recall, remember, type Step, type World } from './world.ts'

export function applyCommands(world: World, run: WorkflowRun, commands: Command[]): void {
  const taskCompletedEventId = run.history.length
  const isLast = commands.some(endsRun)
  for (const command of withEndLast(withoutCancelledAtOnce(run, commands))) {
    applyCommand({ world, run, command, taskCompletedEventId, isLast })
  }
}

/**
 * A command that a workflow starts and cancels in one task never reaches the server: core drops both and answers itself. The usual
 * case is a timed `condition` that already holds.
 */
function withoutCancelledAtOnce(run: WorkflowRun, commands: Command[]): Command[] {
  const cancelled = new Map(
    commands.flatMap((command) => {
      const key = cancelKeyOf(command)
      return key === null ? [] : [[key, command] as const]
    }),
  )
  const dropped = new Set<Command>()
  for (const command of commands) {
    const key = startKeyOf(command)
    const cancel = key === null ? undefined : cancelled.get(key)
    if (cancel === undefined) continue
    dropped.add(command).add(cancel)
    answerCancelledAtOnce(run, command)
  }
  return commands.filter((command) => !dropped.has(command))
}

/** Like core: the command that ends the run goes last, regardless of the order in which the workflow issued them. */
function withEndLast(commands: Command[]): Command[] {
  const [end] = commands.filter(endsRun)
  const others = commands.filter((command) => !endsRun(command))
  return end === undefined ? others : [...others, end]
}

function endsRun(command: Command): boolean {
  return Boolean(
    command.completeWorkflowExecution ??
      command.failWorkflowExecution ??
      command.cancelWorkflowExecution ??
      command.continueAsNewWorkflowExecution,
  )
}

function startKeyOf({
  startTimer,
  scheduleActivity: activity,
  startChildWorkflowExecution: child,
}: Command): string | null {
  if (startTimer) return `timer ${startTimer.seq}`
  if (activity) return `activity ${activity.seq}`
  return child ? `child ${child.seq}` : null
}

function cancelKeyOf(command: Command): string | null {
  if (command.cancelTimer) return `timer ${command.cancelTimer.seq}`
  if (command.requestCancelActivity) return `activity ${command.requestCancelActivity.seq}`
  const child = command.cancelChildWorkflowExecution
  return child ? `child ${child.childWorkflowSeq}` : null
}

function answerCancelledAtOnce(run: WorkflowRun, command: Command): void {
  if (command.scheduleActivity) return answerNeverScheduled(run, command.scheduleActivity)
  if (command.startChildWorkflowExecution) answerNeverStarted(run, command.startChildWorkflowExecution)
}

function applyCommand(step: Step): void {
  const { command } = step
  if (command.scheduleActivity) return scheduleActivity(step, command.scheduleActivity)
  if (command.requestCancelActivity) return cancelActivity(step, command.requestCancelActivity.seq ?? 0)
  if (command.startTimer) return startTimer(step, command.startTimer)
  if (command.cancelTimer) return cancelTimer(step, command.cancelTimer.seq ?? 0)
  if (command.startChildWorkflowExecution) return startChild(step, command.startChildWorkflowExecution)
  if (command.cancelChildWorkflowExecution) return cancelChild(step, command.cancelChildWorkflowExecution)
  if (command.signalExternalWorkflowExecution) return signalExternal(step, command.signalExternalWorkflowExecution)
  if (command.requestCancelExternalWorkflowExecution) {
    return cancelExternal(step, command.requestCancelExternalWorkflowExecution)
  }
  if (command.updateResponse) return answerUpdate(step, command.updateResponse)
  if (command.upsertWorkflowSearchAttributes)
    return upsertSearchAttributes(step, command.upsertWorkflowSearchAttributes)
  if (command.modifyWorkflowProperties) return modifyProperties(step, command.modifyWorkflowProperties)
  if (command.setPatchMarker) return recordPatch(step, command.setPatchMarker)
  if (command.completeWorkflowExecution) return complete(step, command.completeWorkflowExecution)
  if (command.failWorkflowExecution) return fail(step, command.failWorkflowExecution.failure ?? {})
  if (command.cancelWorkflowExecution) return cancelled(step)
  if (command.continueAsNewWorkflowExecution) return continueAsNew(step, command.continueAsNewWorkflowExecution)
  // Ignoring it would let a test pass that fails on a server.
  throw new Error(`The workflow driver does not know the command ${Object.keys(command).join(', ')} yet: add it`)
}

function startTimer(step: Step, command: coresdk.workflow_commands.IStartTimer): void {
  const { world, run, taskCompletedEventId } = step
  const seq = command.seq ?? 0
  const timerId = String(seq)
  const startedEventId = run.history.add({
    type: 'EVENT_TYPE_TIMER_STARTED',
    timeMs: world.nowMs(),
    userMetadata: step.command.userMetadata,
    attributes: {
      timerStartedEventAttributes: {
        timerId,
        startToFireTimeout: command.startToFireTimeout,
        workflowTaskCompletedEventId: taskCompletedEventId,
      },
    },
  })
  remember(run, 'timer', seq, startedEventId)
  const unplan = world.after(durationMs(command.startToFireTimeout) ?? 0, () => {
    run.timers.delete(seq)
    if (!run.isOpen) return
    run.history.add({
      type: 'EVENT_TYPE_TIMER_FIRED',
      timeMs: world.nowMs(),
      attributes: { timerFiredEventAttributes: { timerId, startedEventId } },
    })
    run.addJob({ fireTimer: { seq } })
  })
  run.timers.set(seq, unplan)
}

function cancelTimer({ world, run, taskCompletedEventId }: Step, seq: number): void {
  run.timers.get(seq)?.()
  run.timers.delete(seq)
  run.history.add({
    type: 'EVENT_TYPE_TIMER_CANCELED',
    timeMs: world.nowMs(),
    attributes: {
      timerCanceledEventAttributes: {
        timerId: String(seq),
        startedEventId: recall(run, 'timer', seq),
        workflowTaskCompletedEventId: taskCompletedEventId,
        identity: WORKER_IDENTITY,
      },
    },
  })
}

/** Core records a marker, and makes the run findable by all of its patches. */
function recordPatch(step: Step, { patchId, deprecated }: coresdk.workflow_commands.ISetPatchMarker): void {
  const { world, run, taskCompletedEventId } = step
  const [details] = encode({ id: patchId, deprecated: deprecated ?? false })
  run.history.add({
    type: 'EVENT_TYPE_MARKER_RECORDED',
    timeMs: world.nowMs(),
    attributes: {
      markerRecordedEventAttributes: {
        markerName: 'core_patch',
        details: { 'patch-data': { payloads: details === undefined ? [] : [details] } },
        workflowTaskCompletedEventId: taskCompletedEventId,
      },
    },
  })
  run.patches.add(patchId ?? '')
  const [ids] = encode([...run.patches].toSorted())
  if (ids?.metadata) ids.metadata['type'] = new TextEncoder().encode('KeywordList')
  upsertSearchAttributes(step, { searchAttributes: { indexedFields: { TemporalChangeVersion: ids ?? {} } } })
}

function upsertSearchAttributes(
  { world, run, taskCompletedEventId }: Step,
  command: coresdk.workflow_commands.IUpsertWorkflowSearchAttributes,
): void {
  Object.assign(run.searchAttributes, command.searchAttributes?.indexedFields)
  run.history.add({
    type: 'EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES',
    timeMs: world.nowMs(),
    attributes: {
      upsertWorkflowSearchAttributesEventAttributes: {
        workflowTaskCompletedEventId: taskCompletedEventId,
        searchAttributes: command.searchAttributes,
      },
    },
  })
}

function modifyProperties(
  { world, run, taskCompletedEventId }: Step,
  command: coresdk.workflow_commands.IModifyWorkflowProperties,
): void {
  Object.assign(run.memo, command.upsertedMemo?.fields)
  run.history.add({
    type: 'EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED',
    timeMs: world.nowMs(),
    attributes: {
      workflowPropertiesModifiedEventAttributes: {
        workflowTaskCompletedEventId: taskCompletedEventId,
        upsertedMemo: command.upsertedMemo,
      },
    },
  })
}
