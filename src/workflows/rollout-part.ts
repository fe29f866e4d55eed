import { CancellationScope, condition, getExternalWorkflowHandle, log, patched, sleep } from '@temporalio/workflow'
import type { PromptGroupResult } from '../contracts/workflows.types.ts'
import {
  type HandAgain,
  handAgainSignal,
  handedSignal,
  passOn,
  passOnRequeue,
  type RequeueOrder,
  type RunControl,
  supersededSignal,
} from './run-control.ts'

/** Ended groups are sent in batches of this share of the open ones, because a signal for each of many groups would fill the next
 *  part's history. */
const SHARE_OF_OPEN = 1 / 8

/** A question takes ten events. Each waits twice as long as the one before, because groups are often open for hours. */
const FIRST_QUESTION_MS = 60_000
const LONGEST_BETWEEN_QUESTIONS_MS = 4 * 60 * 60_000

/** Groups of earlier parts. Each occupies a slot of this part until it has ended. */
export class HandedGroups {
  /** Groups without a slot yet. */
  toCome: number
  inPlaces = 0
  readonly #ended: PromptGroupResult[] = []
  readonly #known = new Set<string>()
  readonly #places: ((group: PromptGroupResult | null) => void)[] = []
  readonly #previous: string
  #asking = false

  /** @param previous workflow id of the previous part */
  constructor({ toCome, previous }: { toCome: number; previous: string }) {
    this.toCome = toCome
    this.#previous = previous
  }

  /** Waits without its own limit: the previous part hands on every group, or ends and cancels this one. @returns null if the
   *  previous part was reset */
  async take(): Promise<PromptGroupResult | null> {
    this.toCome -= 1
    this.inPlaces += 1
    const group = this.#ended.shift() ?? (await this.#wait())
    this.inPlaces -= 1
    return group
  }

  #wait(): Promise<PromptGroupResult | null> {
    const group = new Promise<PromptGroupResult | null>((resolve) => this.#places.push(resolve))
    if (!this.#asking && patched('hand-again')) void this.#ask()
    return unlessCancelled(group)
  }

  /**
   * Asks the previous part while a group is awaited. A person may reset this part without the signals that it had received, and the
   * previous part does not see that. The question carries how many groups have arrived, so an answer comes only if one was lost.
   */
  async #ask(): Promise<void> {
    this.#asking = true
    try {
      for (let waitMs = FIRST_QUESTION_MS; this.#places.length > 0; waitMs *= 2) {
        await sleep(Math.min(waitMs, LONGEST_BETWEEN_QUESTIONS_MS), { summary: 'groups of the previous part' })
        if (this.#places.length === 0) break
        await getExternalWorkflowHandle(this.#previous)
          .signal(handAgainSignal, { arrived: this.#known.size })
          .catch((error: unknown) => log.info('the previous part was not asked', { error: String(error) }))
      }
    } catch (error) {
      // This part is cancelled, and so are those that wait.
      log.info('the previous part is asked no more', { error: String(error) })
    }
    this.#asking = false
  }

  /** After a reset the previous part sees the end of a group again and hands it on again. Only the first time counts. */
  arrive(groups: readonly PromptGroupResult[]): void {
    for (const group of groups) {
      if (this.#known.has(group.taskId)) continue
      this.#known.add(group.taskId)
      const place = this.#places.shift()
      if (place === undefined) this.#ended.push(group)
      else place(group)
    }
  }

  /** @returns null if every group that has arrived is counted; otherwise resolves once they are, in this workflow task */
  counted(): Promise<boolean> | null {
    const isCounted = (): boolean => this.inPlaces <= this.#places.length
    return isCounted() || !patched('handed-first') ? null : condition(isCounted, '1 minute')
  }

  abandon(): void {
    this.toCome = 0
    for (const place of this.#places.splice(0)) place(null)
  }
}

/**
 * Ends the successor of a reset execution. A reset does not affect children that began after its point. That part would wait forever
 * for the groups of the execution that was reset, and so would its own successor.
 */
export async function supersede(part: string): Promise<void> {
  if (!patched('parts-superseded')) return
  try {
    await getExternalWorkflowHandle(part).signal(supersededSignal)
  } catch (error) {
    log.info('no part of an earlier execution could be told to end', { part, error: String(error) })
  }
}

/** The next part of a rollout, as the previous part sees it. Messages sent before it has started wait for its start, for as long as
 *  `runChild` waits. */
export class NextPart {
  readonly workflowId: string
  readonly #start = Promise.withResolvers<void>()
  #ended: PromptGroupResult[] = []
  /** All groups that were handed on. */
  readonly #handed: PromptGroupResult[] = []

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

  /** The next part plays only a task again whose end it knows, so it first gets the groups that are kept back. */
  async requeue(order: RequeueOrder): Promise<void> {
    if (!(await this.#isReady())) return
    if (this.#ended.length > 0 && patched('handed-first')) await this.#handOn()
    await passOnRequeue(this.workflowId, order)
  }

  /** @param left groups that the next part still waits for; the last eight are sent one by one, and the last one includes all that
   *  are left */
  async hand(group: PromptGroupResult, left: number): Promise<void> {
    this.#ended.push(group)
    if (this.#ended.length < left * SHARE_OF_OPEN) return
    await unlessCancelled(this.#start.promise)
    await this.#handOn()
  }

  async #handOn(): Promise<void> {
    const groups = this.#ended.splice(0)
    if (groups.length === 0) return
    this.#handed.push(...groups)
    await this.#send(groups)
  }

  /** Hands all groups on once more if fewer have arrived. One that is on its way arrives twice, and counts once. */
  async handAgain({ arrived }: HandAgain): Promise<void> {
    if (arrived < this.#handed.length) await this.#send(this.#handed)
  }

  async #send(groups: readonly PromptGroupResult[]): Promise<void> {
    try {
      await getExternalWorkflowHandle(this.workflowId).signal(handedSignal, { groups: [...groups] })
    } catch (error) {
      // The next part has ended, and its result is this part's result as well.
      log.info('groups not handed on', { part: this.workflowId, error: String(error) })
    }
  }

  /** @returns false if the rollout is cancelled, because an exception in a signal handler would close it before its groups */
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
