import { TypedSearchAttributes, msToTs } from '@temporalio/common'
import proto from '@temporalio/proto'
import type { coresdk, temporal } from '@temporalio/proto'
import type { WorkflowInfo } from '@temporalio/workflow'
import { HistoryBuilder, requestId, timestamp, WORKER_IDENTITY } from '../history-builder.ts'
import type { ActivityRun } from './activity-run.ts'
import { type Command, decode, type Failure, type Job, type Payload, toError } from './protos.ts'
import type { SandboxedWorkflow, WorkflowSandbox } from './sandbox.ts'

export const NAMESPACE = 'default'
const SDK = { name: 'temporal-typescript', version: '1.24.0' }

export type RunStatus =
  | { kind: 'open' }
  | { kind: 'completed'; result: Payload | null }
  | { kind: 'failed'; failure: Failure }
  | { kind: 'cancelled' }
  | { kind: 'terminated' }
  | { kind: 'continued-as-new'; runId: string }

export interface RunStart {
  workflowId: string
  runId: string
  firstRunId: string
  continuedFrom: string | null
  /** Of the execution that was reset; absent without a reset. */
  originalRunId?: string
  type: string
  taskQueue: string
  args: Payload[]
  /** Headers from the caller's interceptors. */
  headers: Record<string, Payload>
  memo: Record<string, Payload>
  searchAttributes: Record<string, Payload>
  summary: string | null
  parent: { workflowId: string; runId: string; seq: number; initiatedEventId: number } | null
  /** Decides the child's fate when its parent closes. */
  parentClosePolicy: coresdk.child_workflow.ParentClosePolicy
}

export interface LogLine {
  level: string
  message: string
  attributes: unknown
}

export interface PendingUpdate {
  accepted: boolean
  acceptedEventId: number
  /** Repeated in the accepted event, from which a replay takes it. */
  request: temporal.api.update.v1.IRequest
  resolve: (result: Payload | null) => void
  reject: (failure: Failure) => void
}

/** Core's order of jobs inside one activation; the isolate relies on it. */
const JOB_RANK: Partial<Record<keyof Job, number>> = {
  initializeWorkflow: 0,
  notifyHasPatch: 1,
  updateRandomSeed: 2,
  signalWorkflow: 3,
  doUpdate: 3,
}
const OTHER_JOBS = 4

/** One run of one workflow execution: its isolate, its pending jobs, its history. */
export class WorkflowRun {
  readonly start: RunStart
  readonly history = new HistoryBuilder()
  readonly activities = new Map<number, ActivityRun>()
  readonly timers = new Map<number, () => void>()
  readonly children = new Map<number, WorkflowRun>()
  readonly updates = new Map<string, PendingUpdate>()
  /** Ids passed to `patched()`. */
  readonly patches = new Set<string>()
  readonly logs: LogLine[] = []
  /** All sink calls of the workflow except logs. */
  readonly sinkCalls: { ifaceName: string; fnName: string; args: unknown[] }[] = []
  readonly memo: Record<string, Payload>
  readonly searchAttributes: Record<string, Payload>
  status: RunStatus = { kind: 'open' }
  #jobs: Job[] = []
  #workflow: SandboxedWorkflow | null = null
  #lastDetails: string | null = null
  readonly #startedAtMs: number

  constructor(start: RunStart, nowMs: number) {
    this.start = start
    this.memo = { ...start.memo }
    this.searchAttributes = { ...start.searchAttributes }
    this.#startedAtMs = nowMs
    this.#recordStart(nowMs)
    this.#jobs.push({ initializeWorkflow: this.#initializeJob(nowMs) })
  }

  get isOpen(): boolean {
    return this.status.kind === 'open'
  }

  get hasJobs(): boolean {
    return this.isOpen && this.#jobs.length > 0
  }

  addJob(job: Job): void {
    this.#jobs.push(job)
  }

  /** One workflow task: takes the pending jobs and returns the commands. @throws if the task itself failed */
  async activate(sandbox: WorkflowSandbox, nowMs: number, suggestAfterEvents: number): Promise<Command[]> {
    this.#workflow ??= await sandbox.createWorkflow({
      info: this.#info(nowMs),
      randomnessSeed: [...Buffer.from(this.start.runId)],
      now: nowMs,
      showStackTraceSources: false,
    })
    const jobs = this.#jobs.toSorted((a, b) => rank(a) - rank(b))
    this.#jobs = []
    // The history that the workflow sees includes the task's scheduled and started events.
    const historyLength = this.history.length + 2
    const suggestContinueAsNew = historyLength >= suggestAfterEvents
    const completion = await this.#workflow.activate(
      activation({
        runId: this.start.runId,
        timestamp: timestamp(nowMs),
        historyLength,
        historySizeBytes: this.history.bytes,
        continueAsNewSuggested: suggestContinueAsNew,
        jobs,
      }),
    )
    await this.#collectLogs()
    if (completion.failed?.failure) {
      throw new Error(`Workflow task of ${this.start.workflowId} failed; a server would repeat it for ever`, {
        cause: toError(completion.failed.failure),
      })
    }
    const successful = completion.successful ?? {}
    this.history.addWorkflowTask({
      timeMs: nowMs,
      taskQueue: this.start.taskQueue,
      flags: successful.usedInternalFlags ?? [],
      sdk: SDK,
      suggestContinueAsNew,
    })
    return successful.commands ?? []
  }

  /** Queries leave no trace in history. */
  async query(name: string, args: Payload[]): Promise<coresdk.workflow_commands.IQueryResult> {
    if (this.#workflow === null) throw new Error(`${this.start.workflowId} has not begun: nothing can be asked yet`)
    const completion = await this.#workflow.activate(
      activation({
        runId: this.start.runId,
        timestamp: null,
        historyLength: this.history.length,
        historySizeBytes: this.history.bytes,
        continueAsNewSuggested: false,
        jobs: [{ queryWorkflow: { queryId: 'query', queryType: name, arguments: args, headers: {} } }],
      }),
    )
    if (completion.failed?.failure) throw toError(completion.failed.failure)
    const answer = completion.successful?.commands?.find((command) => command.respondToQuery)?.respondToQuery
    if (!answer) throw new Error(`${this.start.workflowId} gave no answer to the query ${name}`)
    return answer
  }

  /** The Markdown that the Temporal UI shows; after its end the last one. */
  async currentDetails(): Promise<string> {
    if (this.#workflow === null && this.#lastDetails !== null) return this.#lastDetails
    const { failed, succeeded } = await this.query('__temporal_workflow_metadata', [])
    if (failed) throw toError(failed)
    return (decode(succeeded?.response) as { currentDetails?: string }).currentDetails ?? ''
  }

  async dispose(): Promise<void> {
    if (this.#workflow !== null) this.#lastDetails = await this.currentDetails()
    await this.#workflow?.dispose()
    this.#workflow = null
  }

  async #collectLogs(): Promise<void> {
    for (const call of (await this.#workflow?.getAndResetSinkCalls()) ?? []) {
      if (call.ifaceName !== '__temporal_logger') {
        this.sinkCalls.push(call)
        continue
      }
      this.logs.push({ level: call.fnName, message: String(call.args[0]), attributes: call.args[1] })
    }
  }

  #recordStart(nowMs: number): void {
    const { start } = this
    this.history.add({
      type: 'EVENT_TYPE_WORKFLOW_EXECUTION_STARTED',
      timeMs: nowMs,
      ...(start.summary === null ? {} : { userMetadata: { summary: jsonPayload(start.summary) } }),
      attributes: {
        workflowExecutionStartedEventAttributes: {
          workflowType: { name: start.type },
          workflowId: start.workflowId,
          taskQueue: { name: start.taskQueue, kind: 1 },
          input: { payloads: start.args },
          workflowTaskTimeout: msToTs('10s'),
          originalExecutionRunId: start.originalRunId ?? start.runId,
          firstExecutionRunId: start.firstRunId,
          continuedExecutionRunId: start.continuedFrom ?? '',
          identity: WORKER_IDENTITY,
          attempt: 1,
          firstWorkflowTaskBackoff: {},
          header: { fields: start.headers },
          memo: { fields: this.memo },
          searchAttributes: { indexedFields: this.searchAttributes },
          ...(start.parent === null
            ? {}
            : {
                parentWorkflowNamespace: NAMESPACE,
                parentWorkflowNamespaceId: requestId(1),
                parentWorkflowExecution: { workflowId: start.parent.workflowId, runId: start.parent.runId },
                parentInitiatedEventId: start.parent.initiatedEventId,
              }),
        },
      },
    })
  }

  #initializeJob(nowMs: number): coresdk.workflow_activation.IInitializeWorkflow {
    const { start } = this
    return {
      workflowType: start.type,
      workflowId: start.workflowId,
      arguments: start.args,
      headers: start.headers,
      identity: WORKER_IDENTITY,
      firstExecutionRunId: start.firstRunId,
      attempt: 1,
      memo: { fields: this.memo },
      searchAttributes: { indexedFields: this.searchAttributes },
      startTime: timestamp(nowMs) as never,
    }
  }

  #info(nowMs: number): WorkflowInfo {
    const { start } = this
    return {
      workflowId: start.workflowId,
      runId: start.runId,
      workflowType: start.type,
      searchAttributes: {},
      typedSearchAttributes: new TypedSearchAttributes(),
      ...(start.parent === null
        ? {}
        : { parent: { workflowId: start.parent.workflowId, runId: start.parent.runId, namespace: NAMESPACE } }),
      taskQueue: start.taskQueue,
      namespace: NAMESPACE,
      firstExecutionRunId: start.firstRunId,
      originalExecutionRunId: start.originalRunId ?? start.runId,
      ...(start.continuedFrom === null ? {} : { continuedFromExecutionRunId: start.continuedFrom }),
      startTime: new Date(this.#startedAtMs),
      runStartTime: new Date(nowMs),
      taskTimeoutMs: 10_000,
      attempt: 1,
      historyLength: 0,
      historySize: 0,
      continueAsNewSuggested: false,
      targetWorkerDeploymentVersionChanged: false,
      // The isolate replaces clock and randomness with its own.
      unsafe: {
        isReplaying: false,
        isReplayingHistoryEvents: false,
      } as WorkflowInfo['unsafe'],
    }
  }
}

function rank(job: Job): number {
  const [variant] = Object.keys(job) as (keyof Job)[]
  return (variant && JOB_RANK[variant]) ?? OTHER_JOBS
}

function activation(fields: Record<string, unknown>): coresdk.workflow_activation.WorkflowActivation {
  return proto.coresdk.workflow_activation.WorkflowActivation.fromObject({ isReplaying: false, ...fields })
}

function jsonPayload(text: string): Payload {
  return { metadata: { encoding: Buffer.from('json/plain') }, data: Buffer.from(JSON.stringify(text)) }
}
