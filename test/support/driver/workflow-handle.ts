import { CancelledFailure, TerminatedFailure } from '@temporalio/common'
import { type History, WORKER_IDENTITY } from '../history-builder.ts'
import { decode, decodeFields, encode, toError } from './protos.ts'
import type { LogLine, RunStatus, WorkflowRun } from './workflow-run.ts'

/** One run of one execution, as tests see it. */
export interface ObservedRun {
  workflowId: string
  runId: string
  type: string
  input: unknown
  summary: string | null
  status: RunStatus['kind']
  events: number
  bytes: number
  largestPayload: number
  searchAttributes: Record<string, unknown>
  memo: Record<string, unknown>
  logs: LogLine[]
  /** Sink calls of the workflow except logs. */
  sinkCalls: readonly { ifaceName: string; fnName: string; args: unknown[] }[]
  history: History
  /** As the handle gives it, of this execution. */
  currentDetails(): Promise<string>
}

/** The driver's methods for a handle. */
export interface HandleAccess {
  latestRun(workflowId: string): WorkflowRun
  drive(condition: () => boolean, what: string): Promise<void>
  signal(workflowId: string, name: string, args: unknown[]): void
  cancel(workflowId: string): void
  terminate(workflowId: string): void
  nextUpdateId(): string
}

/** One workflow execution, by id: always its newest run. */
export class WorkflowHandle {
  readonly workflowId: string
  readonly #access: HandleAccess

  constructor(access: HandleAccess, workflowId: string) {
    this.#access = access
    this.workflowId = workflowId
  }

  /** The newest run in its current state. */
  describe(): ObservedRun {
    return observe(this.#access.latestRun(this.workflowId))
  }

  get isOpen(): boolean {
    return this.#access.latestRun(this.workflowId).isOpen
  }

  /** Drives until the execution has closed. Rejects with its failure: an `ApplicationFailure`, `CancelledFailure`, … */
  async result<T = unknown>(): Promise<T> {
    await this.#access.drive(() => !this.isOpen, `the end of ${this.workflowId}`)
    const { status } = this.#access.latestRun(this.workflowId)
    switch (status.kind) {
      case 'completed':
        return decode(status.result) as T
      case 'failed':
        throw toError(status.failure)
      case 'cancelled':
        throw new CancelledFailure(`${this.workflowId} was cancelled`)
      case 'terminated':
        throw new TerminatedFailure(`${this.workflowId} was terminated`)
      default:
        throw new Error(`${this.workflowId} is ${status.kind}`)
    }
  }

  signal(name: string, ...args: unknown[]): void {
    this.#access.signal(this.workflowId, name, args)
  }

  cancel(): void {
    this.#access.cancel(this.workflowId)
  }

  terminate(): void {
    this.#access.terminate(this.workflowId)
  }

  /** Sends the update and drives until it is answered. Rejects with the validator's or the handler's failure. */
  async update<T = unknown>(name: string, ...args: unknown[]): Promise<T> {
    const run = this.#access.latestRun(this.workflowId)
    if (!run.isOpen) throw new Error(`No open workflow ${this.workflowId} to update`)
    const id = this.#access.nextUpdateId()
    const input = encode(...args)
    const meta = { updateId: id, identity: WORKER_IDENTITY }
    let answer: { result: unknown } | { error: Error } | null = null
    run.updates.set(id, {
      accepted: false,
      acceptedEventId: 0,
      request: { meta, input: { name, args: { payloads: input }, header: {} } },
      resolve: (result) => {
        answer = { result: decode(result) }
      },
      reject: (failure) => {
        answer = { error: toError(failure) }
      },
    })
    run.addJob({ doUpdate: { id, protocolInstanceId: id, name, input, headers: {}, meta, runValidator: true } })
    const read = (): { result: unknown } | { error: Error } | null => answer
    await this.#access.drive(() => read() !== null, `the answer to update ${name} of ${this.workflowId}`)
    const given = read()
    if (given === null || 'error' in given) throw given?.error ?? new Error('unreachable')
    return given.result as T
  }

  async query<T = unknown>(name: string, ...args: unknown[]): Promise<T> {
    const answer = await this.#access.latestRun(this.workflowId).query(name, encode(...args))
    if (answer.failed) throw toError(answer.failed)
    return decode(answer.succeeded?.response) as T
  }

  /** The Markdown that the Temporal UI shows for the open execution. */
  currentDetails(): Promise<string> {
    return this.#access.latestRun(this.workflowId).currentDetails()
  }
}

export function observe(run: WorkflowRun): ObservedRun {
  const { workflowId, runId, type, args, summary } = run.start
  return {
    workflowId,
    runId,
    type,
    summary,
    input: decode(args[0]),
    status: run.status.kind,
    events: run.history.length,
    bytes: run.history.bytes,
    largestPayload: run.history.largestPayload,
    searchAttributes: decodeFields(run.searchAttributes),
    memo: decodeFields(run.memo),
    logs: run.logs,
    sinkCalls: run.sinkCalls,
    history: run.history.build(),
    currentDetails: () => run.currentDetails(),
  }
}
