import { CancellationScope, getExternalWorkflowHandle, log, patched } from '@temporalio/workflow'
import type { PromptGroupResult } from '../contracts/workflows.types.ts'
import {
  handedSignal,
  passOn,
  passOnRequeue,
  type RequeueOrder,
  type RunControl,
  supersededSignal,
} from './run-control.ts'

/** A signal for each of many groups would fill the next part's history: it waits for this share of those that are still open. */
const SHARE_OF_OPEN = 1 / 8

/** Groups of earlier parts: each takes a place of this part's until it has ended. */
export class HandedGroups {
  /** Those that have no place yet. */
  toCome: number
  inPlaces = 0
  readonly #ended: PromptGroupResult[] = []
  readonly #known = new Set<string>()
  readonly #places: ((group: PromptGroupResult | null) => void)[] = []

  constructor(toCome: number) {
    this.toCome = toCome
  }

  /** Without a limit of its own: the part before hands every group on, or ends and cancels this one. @returns null where it was reset */
  async take(): Promise<PromptGroupResult | null> {
    this.toCome -= 1
    this.inPlaces += 1
    const group =
      this.#ended.shift() ??
      (await unlessCancelled(new Promise<PromptGroupResult | null>((resolve) => this.#places.push(resolve))))
    this.inPlaces -= 1
    return group
  }

  /** A reset of the part before makes it see the end of a group again, and hand the group on again: the first time counts. */
  arrive(groups: readonly PromptGroupResult[]): void {
    for (const group of groups) {
      if (this.#known.has(group.taskId)) continue
      this.#known.add(group.taskId)
      const place = this.#places.shift()
      if (place === undefined) this.#ended.push(group)
      else place(group)
    }
  }

  abandon(): void {
    this.toCome = 0
    for (const place of this.#places.splice(0)) place(null)
  }
}

/**
 * A reset leaves the children that began after its point as they are. The part of before would wait for ever for groups that the execution
 * that was reset had open, and the execution that follows for that part.
 */
export async function supersede(part: string): Promise<void> {
  if (!patched('parts-superseded')) return
  try {
    await getExternalWorkflowHandle(part).signal(supersededSignal)
  } catch (error) {
    log.info('no part of an earlier execution was told to end', { part, error: String(error) })
  }
}

/** The next part of a rollout, as the part before sees it. What is sent before it has started waits for that, for as long as `runChild` waits. */
export class NextPart {
  readonly workflowId: string
  readonly #start = Promise.withResolvers<void>()
  #ended: PromptGroupResult[] = []

  constructor(workflowId: string) {
    this.workflowId = workflowId
  }

  hasStarted(): void {
    this.#start.resolve()
  }

  async steer(control: RunControl): Promise<void> {
    if (await this.#isReady()) await passOn(this.workflowId, control)
  }

  async supersede(): Promise<void> {
    if (await this.#isReady()) await supersede(this.workflowId)
  }

  async requeue(order: RequeueOrder): Promise<void> {
    if (await this.#isReady()) await passOnRequeue(this.workflowId, order)
  }

  /** @param left groups that the next part still waits for: with the last eight each is sent at once, and the last one takes all along */
  async hand(group: PromptGroupResult, left: number): Promise<void> {
    this.#ended.push(group)
    if (this.#ended.length < left * SHARE_OF_OPEN) return
    await unlessCancelled(this.#start.promise)
    const groups = this.#ended.splice(0)
    if (groups.length === 0) return
    try {
      await getExternalWorkflowHandle(this.workflowId).signal(handedSignal, { groups })
    } catch (error) {
      // It has ended, and how it ended is this part's result as well.
      log.info('groups not handed on', { part: this.workflowId, error: String(error) })
    }
  }

  /** @returns false where the rollout is cancelled: a signal handler that threw that would close it before its groups */
  async #isReady(): Promise<boolean> {
    try {
      await unlessCancelled(this.#start.promise)
      return true
    } catch {
      return false
    }
  }
}

function unlessCancelled<T>(promise: Promise<T>): Promise<T> {
  return Promise.race([promise, CancellationScope.current().cancelRequested])
}
