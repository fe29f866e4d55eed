/**
 * Runs real workflow code without a server: the built bundle in the SDK's isolate, a fake clock, and a table of scripted activities.
 * Children, signals, updates, queries, cancellation, retries, timeouts and continue-as-new follow the server's rules; every execution
 * has a history of real protobufs, so budgets can be measured and the result can be replayed.
 *
 * Limits: task queues have no order between workflows, a workflow task never fails by itself, visibility and workflow timeouts do not
 * exist. Each event gets its own workflow task, while a busy server would batch some, so counts are an upper bound.
 */
import { createHash } from 'node:crypto'
import proto from '@temporalio/proto'
import type { coresdk, temporal } from '@temporalio/proto'
import type {
  ArtifactActivities,
  ControlActivities,
  HostActivities,
  SandboxActivities,
  TrainerActivities,
} from '../../src/contracts/activities.types.ts'
import type { ActivityCall, ActivityTable } from './activity-script.ts'
import { ActivityRun } from './driver/activity-run.ts'
import { Agenda } from './driver/agenda.ts'
import { reportChildEnd } from './driver/child-commands.ts'
import { applyCommands } from './driver/commands.ts'
import { decode, durationMs, encode } from './driver/protos.ts'
import { openSandboxOf, type WorkflowSandbox } from './driver/sandbox.ts'
import type { World } from './driver/world.ts'
import { type HandleAccess, observe, type ObservedRun, WorkflowHandle } from './driver/workflow-handle.ts'
import { type RunStart, type RunStatus, WorkflowRun } from './driver/workflow-run.ts'
import { requestId, WORKER_IDENTITY } from './history-builder.ts'
import { buildWorkflowBundle, type WorkflowBundle } from './workflow-bundle.ts'

/** Every activity of the project. */
export type AllActivities = ControlActivities &
  SandboxActivities &
  HostActivities &
  TrainerActivities &
  ArtifactActivities

export interface WorkflowDriverOptions<A> {
  activities: ActivityTable<NoInfer<A>>
  /** @default the project's workflows */
  bundle?: WorkflowBundle
  /** ISO time at which the fake clock starts. @default 2026-01-01T00:00:00Z */
  startTime?: string
  /** History length from which `continueAsNewSuggested` is true. @default 4096, as on a server */
  suggestContinueAsNewAfterEvents?: number
  /** Signals that their receiver never sees, as after a reset without the signals that came later. @default none */
  losesSignal?: (workflowId: string, name: string) => boolean
  /** Milliseconds from the command that starts a child to its start. Until then nothing reaches it. @default 0 */
  startDelayMs?: (workflowId: string) => number
}

/** Ends an endless retry or a hot loop with a clear failure instead of a hanging test. */
const MAX_STEPS = 200_000

const { WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY, WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE } =
  proto.temporal.api.enums.v1.WorkflowIdReusePolicy
const { PARENT_CLOSE_POLICY_TERMINATE, PARENT_CLOSE_POLICY_ABANDON, PARENT_CLOSE_POLICY_REQUEST_CANCEL } =
  proto.coresdk.child_workflow.ParentClosePolicy

export async function createWorkflowDriver<A = AllActivities>(
  options: WorkflowDriverOptions<A>,
): Promise<WorkflowDriver> {
  const sandbox = await openSandboxOf(options.bundle ?? (await buildWorkflowBundle()))
  return new WorkflowDriver({
    sandbox,
    scripts: new Map(Object.entries(options.activities) as [string, Script][]),
    startMs: Date.parse(options.startTime ?? '2026-01-01T00:00:00Z'),
    suggestAfterEvents: options.suggestContinueAsNewAfterEvents ?? 4096,
    losesSignal: options.losesSignal ?? (() => false),
    startDelayMs: options.startDelayMs ?? (() => 0),
  })
}

type Script = (input: unknown, call: ActivityCall) => unknown

export class WorkflowDriver {
  /** Every attempt of every activity, in order of start. */
  readonly calls: ActivityCall[] = []
  readonly #sandbox: WorkflowSandbox
  readonly #scripts: Map<string, Script>
  readonly #suggestAfterEvents: number
  readonly #losesSignal: (workflowId: string, name: string) => boolean
  readonly #startDelayMs: (workflowId: string) => number
  readonly #agenda: Agenda
  readonly #runs: WorkflowRun[] = []
  readonly #stoppedQueues = new Set<string>()
  #nextRun = 1
  #nextUpdate = 1
  #steps = 0
  #stepping: Promise<boolean> | null = null

  constructor(input: {
    sandbox: WorkflowSandbox
    scripts: Map<string, Script>
    startMs: number
    suggestAfterEvents: number
    losesSignal: (workflowId: string, name: string) => boolean
    startDelayMs: (workflowId: string) => number
  }) {
    this.#sandbox = input.sandbox
    this.#scripts = input.scripts
    this.#suggestAfterEvents = input.suggestAfterEvents
    this.#losesSignal = input.losesSignal
    this.#startDelayMs = input.startDelayMs
    this.#agenda = new Agenda(input.startMs)
  }

  get nowMs(): number {
    return this.#agenda.nowMs
  }

  /** Every run so far, in order of start; a continued execution has several. */
  get runs(): ObservedRun[] {
    return this.#runs.map(observe)
  }

  /**
   * Starts a root workflow. It begins with the driver's next step.
   * @param options.isReset it is what a reset to the first event leaves: an execution that knows no child of the one before. @default false
   */
  start(
    type: string,
    input: unknown,
    {
      workflowId = `${type}-root`,
      headers = {},
      further = [],
      isReset = false,
    }: { workflowId?: string; headers?: RunStart['headers']; further?: readonly unknown[]; isReset?: boolean } = {},
  ): WorkflowHandle {
    if (this.#openRun(workflowId)) throw new Error(`${workflowId} is open already`)
    this.#begin({
      workflowId,
      type,
      taskQueue: 'control',
      args: encode(input, ...further),
      headers,
      memo: {},
      searchAttributes: {},
      summary: null,
      parent: null,
      parentClosePolicy: PARENT_CLOSE_POLICY_TERMINATE,
      ...(isReset ? { originalRunId: runIdOf(workflowId, 0) } : {}),
    })
    return this.handle(workflowId)
  }

  handle(workflowId: string): WorkflowHandle {
    return new WorkflowHandle(this.#handleAccess, workflowId)
  }

  /** Kills the worker of a queue: running attempts reach their timeouts, and new ones wait. */
  stopQueue(taskQueue: string): void {
    this.#stoppedQueues.add(taskQueue)
    for (const run of this.#runs) {
      for (const activity of run.activities.values()) if (activity.taskQueue === taskQueue) activity.workerDied()
    }
  }

  async startQueue(taskQueue: string): Promise<void> {
    this.#stoppedQueues.delete(taskQueue)
    for (const run of this.#runs) {
      for (const activity of run.activities.values()) {
        if (activity.taskQueue === taskQueue) await activity.workerReturned()
      }
    }
  }

  /** Takes steps until the condition holds. @throws if no event is left before that */
  async runUntil(condition: () => boolean, what = 'the expected state'): Promise<void> {
    while (!condition()) {
      if (!(await this.#step()))
        throw new Error(`Nothing is left to happen, but ${what} was not reached.\n${this.#open()}`)
    }
  }

  /** Advances the fake clock by `ms` and runs everything that is due until then. */
  async advance(ms: number): Promise<void> {
    let reached = false
    this.#agenda.after(ms, () => {
      reached = true
    })
    await this.runUntil(() => reached, `${ms} ms later`)
  }

  /** Runs until no event is left. */
  async runToIdle(): Promise<void> {
    while (await this.#step()) {
      // The step does the work.
    }
  }

  /** Attempts of one activity type, in order of start. */
  callsOf(type: keyof AllActivities | (string & {})): ActivityCall[] {
    return this.calls.filter((call) => call.type === type)
  }

  async #step(): Promise<boolean> {
    // Several concurrent waits may drive; they share the step in progress.
    this.#stepping ??= this.#takeStep().finally(() => {
      this.#stepping = null
    })
    return this.#stepping
  }

  async #takeStep(): Promise<boolean> {
    if (++this.#steps > MAX_STEPS)
      throw new Error(`More than ${MAX_STEPS} steps: something repeats for ever.\n${this.#open()}`)
    const ready = this.#runs.find((run) => run.hasJobs)
    if (ready) {
      applyCommands(this.#world, ready, await ready.activate(this.#sandbox, this.nowMs, this.#suggestAfterEvents))
      if (!ready.isOpen) await ready.dispose()
      return true
    }
    const act = this.#agenda.next()
    if (act === null) return false
    await act()
    return true
  }

  #begin(start: Omit<RunStart, 'runId' | 'firstRunId' | 'continuedFrom'>, before?: WorkflowRun): WorkflowRun {
    const runId = runIdOf(start.workflowId, this.#nextRun++)
    const run = new WorkflowRun(
      {
        ...start,
        runId,
        firstRunId: before?.start.firstRunId ?? runId,
        continuedFrom: before?.start.runId ?? null,
      },
      this.nowMs,
    )
    this.#runs.push(run)
    return run
  }

  #latestRun(workflowId: string): WorkflowRun | undefined {
    return this.#runs.findLast((run) => run.start.workflowId === workflowId)
  }

  #openRun(workflowId: string): WorkflowRun | undefined {
    const run = this.#latestRun(workflowId)
    return run?.isOpen ? run : undefined
  }

  #open(): string {
    const lines = this.#runs
      .filter((run) => run.isOpen)
      .map((run) => {
        const waits = [
          ...[...run.activities.values()].map((activity) => activity.description),
          ...[...run.children.values()].map((child) => `child ${child.start.workflowId}`),
          ...[...run.timers.keys()].map((seq) => `timer ${seq}`),
        ]
        return `  ${run.start.type} ${run.start.workflowId}: ${waits.length === 0 ? 'waits for a message' : waits.join(', ')}`
      })
    return lines.length === 0 ? 'No workflow is open.' : `Open workflows:\n${lines.join('\n')}`
  }

  readonly #world: World = {
    nowMs: () => this.nowMs,
    after: (delayMs, act) => this.#agenda.after(delayMs, act),
    scheduleActivity: ({ run, command, summary, onEnd }) => {
      const type = command.activityType ?? ''
      const script = this.#scripts.get(type)
      if (script === undefined) throw new Error(`${run.start.workflowId} calls ${type}, which the activity table lacks`)
      const activity = new ActivityRun({
        command,
        script,
        agenda: this.#agenda,
        isServed: (queue) => !this.#stoppedQueues.has(queue),
        onAttempt: (call) => this.calls.push(call),
        onEnd,
        call: {
          type,
          input: decode(command.arguments?.[0]),
          workflowId: run.start.workflowId,
          taskQueue: command.taskQueue ?? '',
          scheduleToStartMs: durationMs(command.scheduleToStartTimeout),
          startToCloseMs: durationMs(command.startToCloseTimeout),
          heartbeatMs: durationMs(command.heartbeatTimeout),
          scheduleToCloseMs: durationMs(command.scheduleToCloseTimeout),
          maximumAttempts: command.retryPolicy?.maximumAttempts ?? 0,
          summary,
        },
      })
      this.#agenda.after(0, () => activity.enqueue())
      return activity
    },
    startDelayMs: (workflowId) => this.#startDelayMs(workflowId),
    startChild: (start, reuse) => {
      const before = this.#latestRun(start.workflowId)
      if (before && !mayReuse(before, reuse)) return null
      return this.#begin(start)
    },
    continueAsNew: (run, command) => this.#continueAsNew(run, command),
    signal: (workflowId, signal) => this.#signal(workflowId, signal),
    cancel: (workflowId, reason) => this.#cancel(workflowId, reason),
    close: (run, status) => this.#close(run, status),
  }

  #continueAsNew(run: WorkflowRun, command: coresdk.workflow_commands.IContinueAsNewWorkflowExecution): string {
    const { parent, parentClosePolicy, summary, workflowId } = run.start
    const next = this.#begin(
      {
        workflowId,
        parent,
        parentClosePolicy,
        summary,
        type: command.workflowType || run.start.type,
        taskQueue: command.taskQueue || run.start.taskQueue,
        args: command.arguments ?? [],
        headers: command.headers ?? {},
        // A run's upserts are its own.
        memo: command.memo ?? {},
        searchAttributes: command.searchAttributes?.indexedFields ?? run.searchAttributes,
      },
      run,
    )
    const parentRun = parent && this.#runs.find((other) => other.start.runId === parent.runId)
    if (parentRun?.children.has(parent?.seq ?? 0)) parentRun.children.set(parent?.seq ?? 0, next)
    return next.start.runId
  }

  #close(run: WorkflowRun, status: RunStatus): void {
    run.status = status
    for (const activity of run.activities.values()) activity.abandon()
    for (const unplan of run.timers.values()) unplan()
    for (const update of run.updates.values()) {
      update.reject({
        message: `${run.start.workflowId} closed before the update was answered`,
        applicationFailureInfo: {},
      })
    }
    // Children of this run only: a run that continues as new loses them too.
    for (const child of run.children.values()) this.#applyParentClosePolicy(child)
    const { parent } = run.start
    if (status.kind === 'continued-as-new' || parent === null) return
    const parentRun = this.#runs.find((other) => other.start.runId === parent.runId)
    if (parentRun) reportChildEnd(this.#world, parentRun, run)
  }

  #applyParentClosePolicy(child: WorkflowRun): void {
    if (!child.isOpen) return
    switch (child.start.parentClosePolicy) {
      case PARENT_CLOSE_POLICY_ABANDON:
        return
      case PARENT_CLOSE_POLICY_REQUEST_CANCEL:
        this.#cancel(child.start.workflowId, 'by parent close policy')
        return
      default:
        this.#terminate(child, 'by parent close policy')
    }
  }

  #terminate(run: WorkflowRun, reason: string): void {
    run.history.add({
      type: 'EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED',
      timeMs: this.nowMs,
      attributes: { workflowExecutionTerminatedEventAttributes: { reason, identity: WORKER_IDENTITY } },
    })
    this.#close(run, { kind: 'terminated' })
  }

  #signal(workflowId: string, signal: coresdk.workflow_activation.ISignalWorkflow): boolean {
    const run = this.#openRun(workflowId)
    if (run === undefined) return false
    if (this.#losesSignal(workflowId, signal.signalName ?? '')) return true
    run.history.add({
      type: 'EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED',
      timeMs: this.nowMs,
      attributes: {
        workflowExecutionSignaledEventAttributes: {
          signalName: signal.signalName,
          input: { payloads: signal.input ?? [] },
          identity: WORKER_IDENTITY,
          header: { fields: signal.headers ?? {} },
        },
      },
    })
    run.addJob({ signalWorkflow: signal })
    return true
  }

  #cancel(workflowId: string, reason: string): boolean {
    const run = this.#openRun(workflowId)
    if (run === undefined) return false
    run.history.add({
      type: 'EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED',
      timeMs: this.nowMs,
      attributes: { workflowExecutionCancelRequestedEventAttributes: { cause: reason, identity: WORKER_IDENTITY } },
    })
    run.addJob({ cancelWorkflow: { reason } })
    return true
  }

  readonly #handleAccess: HandleAccess = {
    latestRun: (workflowId) => {
      const run = this.#latestRun(workflowId)
      if (run === undefined) throw new Error(`No workflow ${workflowId} was started`)
      return run
    },
    drive: (condition, what) => this.runUntil(condition, what),
    signal: (workflowId, signalName, args) => {
      if (!this.#signal(workflowId, { signalName, input: encode(...args), identity: WORKER_IDENTITY, headers: {} })) {
        throw new Error(`No open workflow ${workflowId} to signal`)
      }
    },
    cancel: (workflowId) => {
      if (!this.#cancel(workflowId, 'by the test')) throw new Error(`No open workflow ${workflowId} to cancel`)
    },
    terminate: (workflowId) => this.#terminate(this.#handleAccess.latestRun(workflowId), 'by the test'),
    nextUpdateId: () => requestId(900_000 + this.#nextUpdate++),
  }
}

function mayReuse(before: WorkflowRun, reuse: temporal.api.enums.v1.WorkflowIdReusePolicy): boolean {
  if (before.isOpen) return false
  if (reuse === WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE) return false
  return reuse !== WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY || before.status.kind !== 'completed'
}

/** A UUID, the same in every repetition of a test. */
function runIdOf(workflowId: string, number: number): string {
  const hex = createHash('sha256').update(`${workflowId} ${number}`).digest('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), `4${hex.slice(13, 16)}`, `8${hex.slice(17, 20)}`, hex.slice(20, 32)].join(
    '-',
  )
}
