import {
  CancellationScope,
  continueAsNew,
  isCancellation,
  log,
  ParentClosePolicy,
  patched,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow'
import { isFailureCode } from '../contracts/failure-codes.ts'
import { stepHeartbeatSeconds } from '../contracts/step-heartbeat.ts'
import { workflowIds } from '../contracts/workflow-ids.ts'
import type { PromptGroupResult, RolloutCounts, RolloutInput } from '../contracts/workflows.types.ts'
import { control } from './activity-proxies.ts'
import { failRun, withCode, innermostMessage } from './failures.ts'
import { isHistoryFull } from './history-page.ts'
import { requireResult } from './require-result.ts'
import { receiveSignal } from './receive-signal.ts'
import { runChild } from './run-child.ts'
import { promptGroup } from './prompt-group.ts'
import { RolloutBoard } from './rollout-board.ts'
import { HandedGroups, NextPart, supersede } from './rollout-part.ts'
import {
  answerRequeue,
  controlSignal,
  handAgainSignal,
  handedSignal,
  holdEarlier,
  passOnToOpen,
  type RequeueAnswer,
  type RequeueOrder,
  requeueSignal,
  type RunControl,
  supersededSignal,
  whilePaused,
} from './run-control.ts'
import { stageAttributes } from './search-attributes.ts'
import { runConcurrently } from './run-concurrently.ts'

/** Large enough that one bad container is not mistaken for a dead server. */
const ABORT_AFTER_ALL_LOST = 12

/**
 * Priority of the workflow tasks of groups, and of their episodes, which inherit it. A thousand of them may wait for a control worker.
 * Tasks and queries of rollouts, stages and roots have the server's default of 3 and run first, so a rollout answers while its episodes
 * begin.
 */
const BEHIND_STEERING = { priorityKey: 4 } as const

/** Task ids per page: 50 ids stay far below 4 KB of payload. */
const PAGE = 50

/** Start and end of a group: three events, and two workflow tasks of three events. One hard pause and its end: two signals of two
 *  events. */
const EVENTS_A_GROUP = 9 + 4
/** Reports, requests of operators and pages of the plan: 200. Groups handed to the next part and received from the previous one:
 *  about 45 signals each, see `NextPart`. */
const EVENTS_BESIDE_GROUPS = 200 + 45 * 5 + 45 * 4

/**
 * Plays every task of a plan. Children: `promptGroup`, as many at a time as the recipe or an operator says; and `rollout`, once the
 * history is nearly full. That next part plays the remaining tasks and counts, while this one ends its open groups and hands them on.
 * Continues as new, with its counts, when the server suggests it and no child is open. A pause stops new groups and lets open ones
 * finish; a hard one also holds their episodes. A requeued task is cancelled if it is open and played again if it lost episodes;
 * recorded episodes count. Query `progress`; it reports to its root from time to time. On cancel, or when the run fails, the groups are
 * cancelled and awaited.
 */
export async function rollout(input: RolloutInput): Promise<RolloutCounts> {
  const play = new Rollout(input)
  try {
    await play.playAll()
  } catch (error) {
    throw withCode(error)
  } finally {
    if (play.mayLeavePart()) await play.supersedeNext()
  }
  return play.isDone() ? play.result() : continueAsNew<typeof rollout>(play.rest())
}

class Rollout {
  readonly #input: RolloutInput
  readonly #counts: RolloutCounts
  readonly #steering: RunControl
  readonly #board: RolloutBoard
  readonly #tasks: TaskCursor
  /** Open groups by task. `again` means that the group is being cancelled to be played again. */
  readonly #open = new Map<string, { scope: CancellationScope; again: boolean }>()
  /** Tasks that are played again before any other. */
  readonly #again: string[]
  /** Workflow id of the first part. */
  readonly #id: string
  readonly #number: number
  readonly #handed: HandedGroups
  /** Groups that occupy a slot and have not ended, including those that have not begun and those of earlier parts. */
  #underWay = 0
  #isFull = false
  /** If true, this execution ends its groups, and no other execution counts them. */
  #isSuperseded = false
  #next: NextPart | null = null
  /** Counts of all parts. */
  #total: RolloutCounts | null = null
  #widen: () => void = () => undefined

  constructor(input: RolloutInput) {
    const { tally: _, ...counts } = input.counts ?? {
      groups: 0,
      episodes: 0,
      infra: 0,
      resolved: 0,
      turns: 0,
      failure: null,
    }
    this.#input = input
    this.#counts = { ...counts }
    this.#steering = {
      paused: input.paused ?? false,
      stopAfterIteration: null,
      concurrency: input.concurrency ?? null,
    }
    this.#board = new RolloutBoard({ input, counts: this.#counts, steering: this.#steering })
    this.#tasks = new TaskCursor(input, {
      mayTake: () => this.#takePlace(),
      // Rollouts that began before this rule start the groups of a page that was read during a pause.
      isPaused: () => this.#steering.paused && patched('paused-at-page'),
    })
    this.#again = [...(input.again ?? [])]
    this.#id = input.part?.rollout ?? workflowInfo().workflowId
    this.#number = input.part?.number ?? 1
    this.#handed = new HandedGroups({ toCome: input.part?.handed ?? 0, previous: this.#partId(this.#number - 1) })
    receiveSignal(controlSignal, (next) => this.#steer(next))
    receiveSignal(requeueSignal, (order) => this.#answer(order))
    receiveSignal(handedSignal, ({ groups }) => this.#handed.arrive(groups))
    receiveSignal(handAgainSignal, (asked) => this.#next?.handAgain(asked))
    setHandler(supersededSignal, () => this.#retire())
  }

  async playAll(): Promise<void> {
    await runConcurrently({
      concurrency: () => this.#concurrency(),
      onFailure: 'cancel',
      onStart: (widen) => {
        this.#widen = widen
      },
      runNext: () => this.#playNext(),
    })
  }

  #concurrency(): number {
    return Math.max(1, this.#steering.concurrency ?? this.#input.maxOpenGroups)
  }

  /** An execution that was reset may have left a next part, which this execution does not need. */
  mayLeavePart(): boolean {
    const { runId, originalExecutionRunId } = workflowInfo()
    return this.#next === null && runId !== originalExecutionRunId
  }

  supersedeNext(): Promise<void> {
    return CancellationScope.nonCancellable(() => supersede(this.#nextId()))
  }

  isDone(): boolean {
    if (this.#total !== null || this.#isSuperseded) return true
    return this.#tasks.isDone() && this.#again.length === 0 && this.#handed.toCome === 0
  }

  result(): RolloutCounts {
    const counts = this.#total ?? { ...this.#counts }
    return this.#isSuperseded ? { ...counts, superseded: true } : counts
  }

  rest(): RolloutInput {
    const { paused, concurrency = null } = this.#steering
    const counts = { ...this.#counts, tally: this.#board.tally() }
    const { part, again: _, ...input } = this.#input
    return {
      ...input,
      from: this.#tasks.position(),
      counts,
      paused,
      concurrency,
      ...(this.#again.length === 0 ? {} : { again: [...this.#again] }),
      ...(part === undefined ? {} : { part: { ...part, handed: this.#handed.toCome } }),
    }
  }

  async #playNext(): Promise<boolean> {
    if (this.#handed.toCome > 0) {
      this.#underWay += 1
      const group = await this.#handed.take()
      if (group === null) this.#underWay -= 1
      else await this.#end(group)
      return true
    }
    if (this.#isSuperseded || this.#next !== null || workflowInfo().continueAsNewSuggested) return false
    if (this.#steering.paused) {
      await whilePaused(this.#steering)
      // The limit may be lower now.
      return true
    }
    const taskId = this.#takeAgain() ?? (await this.#tasks.next())
    if (taskId === undefined) return true
    if (taskId === null) {
      if (this.#isFull && this.#next === null) await this.#playRest()
      return false
    }
    await this.#end(await this.#playUntilKept(taskId))
    return true
  }

  #takeAgain(): string | undefined {
    return this.#again.length > 0 && this.#takePlace() ? this.#again.shift() : undefined
  }

  /** Called when a task is taken. An open group counts in full, including its events that the history already holds. */
  #takePlace(): boolean {
    const own = this.#underWay - this.#handed.inPlaces
    this.#isFull ||= isHistoryFull({ toCome: own * EVENTS_A_GROUP + EVENTS_BESIDE_GROUPS, patch: 'rollout-parts' })
    if (this.#isFull) return false
    this.#underWay += 1
    return true
  }

  /** Not `async`: another microtask could change the order of commands in older rollouts. */
  #end(group: PromptGroupResult): Promise<void> {
    this.#underWay -= 1
    if (this.#isSuperseded) return Promise.resolve()
    if (this.#next !== null) return this.#next.hand(group, this.#underWay)
    addGroup(this.#counts, group)
    this.#board.ended(group)
    refuseHopeless(this.#counts)
    return this.#board.tell()
  }

  /** Waits for the following parts. The groups that are open here occupy slots there until they have ended. */
  async #playRest(): Promise<void> {
    const { run, stage, iteration, policy } = this.#input
    const number = this.#number + 1
    const next = new NextPart(this.#nextId())
    const { slowest } = this.#board.report()
    const part = { rollout: this.#id, number, handed: this.#underWay, slowest }
    const rest = { ...this.rest(), part }
    this.#next = next
    this.#again.length = 0
    this.#board.continueIn(next.workflowId)
    this.#total = await runChild(
      rollout,
      {
        workflowId: next.workflowId,
        args: [rest],
        parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
        typedSearchAttributes: stageAttributes({ run, stage, iteration, policy: policy.version }),
        staticSummary: `${stage} · iteration ${iteration} · part ${number} · from task ${rest.from}`,
      },
      { started: () => next.hasStarted(), held: () => supersede(next.workflowId) },
    )
    // Only a person can have sent it the signal. Its groups are not all that were left.
    if (this.#total.superseded === true && !this.#isSuperseded) {
      throw failRun(
        'Run.EndedByHand',
        `The workflow ${next.workflowId} was told to end before its tasks were played; start the run again under its name, and it continues from its records`,
      )
    }
  }

  #nextId(): string {
    return this.#partId(this.#number + 1)
  }

  #partId(number: number): string {
    return number > 1 ? workflowIds.rolloutPart(this.#id, number) : this.#id
  }

  #retire(): Promise<void> | undefined {
    // Only a later part is ever superseded.
    if (this.#number === 1) return undefined
    this.#isSuperseded = true
    // Ends the waits for the end of a pause too.
    this.#steering.paused = false
    this.#handed.abandon()
    return this.#next?.supersede()
  }

  /** Plays a group again if an operator cancels it. Its recorded episodes are found. */
  async #playUntilKept(taskId: string): Promise<PromptGroupResult> {
    const outer = CancellationScope.current()
    for (;;) {
      const scope = new CancellationScope()
      const open = { scope, again: false }
      this.#open.set(taskId, open)
      this.#board.began(taskId)
      try {
        return await scope.run(() => this.#playGroup(taskId))
      } catch (error) {
        if (!open.again || !isCancellation(error) || outer.consideredCancelled) throw error
        log.info('playing a task again', { taskId })
      } finally {
        this.#open.delete(taskId)
      }
    }
  }

  async #steer(next: RunControl): Promise<void> {
    const wasHeld = isHeld(this.#steering)
    Object.assign(this.#steering, { hard: false, concurrency: null }, next)
    this.#widen()
    this.#board.show()
    const held = isHeld(this.#steering)
    const passedOn = this.#next?.steer(this.#steering)
    if (held === wasHeld) return passedOn
    const groups = [...this.#open.keys()].map((task) => {
      const isOpen = (): boolean => this.#open.has(task)
      return passOnToOpen(workflowIds.group(this.#id, task), isOpen, () => this.#order())
    })
    await Promise.all([passedOn, ...groups])
  }

  /** Below this workflow a pause is always hard. */
  #order(): RunControl {
    return { paused: isHeld(this.#steering), stopAfterIteration: null }
  }

  /** The next part knows all tasks except those that are open here. */
  async #answer(order: RequeueOrder): Promise<void> {
    if (this.#next !== null && !this.#open.has(order.task)) return this.#next.requeue(order)
    try {
      const counted = this.#handed.counted()
      if (counted !== null) await counted
      await answerRequeue(order, await this.#requeue(order.task))
    } catch (error) {
      // An error of a signal's handler would end the rollout. What the operator asked for is not worth that.
      if (isCancellation(error)) throw error
      await answerRequeue(order, { kind: 'unchanged', note: `the plan could not be read: ${innermostMessage(error)}` })
    }
  }

  async #requeue(task: string): Promise<Omit<RequeueAnswer, 'id'>> {
    const open = this.#open.get(task)
    if (open?.again === true) return { kind: 'unchanged', note: `${task} is being cancelled, to be played again` }
    if (open !== undefined) {
      open.again = true
      open.scope.cancel()
      return { kind: 'again', note: `${task} is cancelled and played again; its graded episodes are kept` }
    }
    if (this.#again.includes(task)) return { kind: 'unchanged', note: `${task} is played again next` }
    const lost = this.#board.takeIncomplete(task)
    if (lost !== null) {
      removeGroup(this.#counts, lost)
      this.#again.push(task)
      this.#widen()
      return { kind: 'again', note: `${task} is played again: ${lost.infra} of its episodes were lost` }
    }
    const place = await this.#tasks.find(task)
    if (place === null) return { kind: 'refused', note: `No task ${task} in ${this.#id}` }
    if (place >= this.#tasks.position()) return { kind: 'unchanged', note: `${task} has not started yet` }
    const { forgotten } = this.#board
    const note =
      forgotten === 0
        ? `${task} has ended with all of its episodes graded`
        : `${task} has ended, with all of its episodes graded or as one of the ${forgotten} tasks with lost episodes that are too long ago to be played again`
    return { kind: 'unchanged', note }
  }

  #playGroup(taskId: string): Promise<PromptGroupResult> {
    const { run, stage, iteration, suite, groupSize, maxReplacements } = this.#input
    const policy = this.#input.policy.version
    const workflowId = workflowIds.group(this.#id, taskId)
    const stepHeartbeatS = stepHeartbeatSeconds(Math.min(this.#concurrency(), this.#input.tasks) * groupSize)
    const silence = stepHeartbeatS === undefined ? {} : { stepHeartbeatS }
    return runChild(
      promptGroup,
      {
        workflowId,
        args: [{ run, stage, iteration, policy, suite, taskId, groupSize, maxReplacements, ...silence }],
        parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
        priority: BEHIND_STEERING,
        typedSearchAttributes: stageAttributes({ run, stage, iteration, policy }),
        staticSummary: `${taskId} · ${groupSize} × ${policy}`,
      },
      holdEarlier(workflowId, this.#steering, () => this.#order()),
    )
  }
}

function isHeld({ paused, hard }: RunControl): boolean {
  return paused && hard === true
}

/** Hands out the plan's task ids in order. Concurrent callers each receive a different one. */
class TaskCursor {
  readonly #input: RolloutInput
  #next: number
  #fetched: number
  #page: string[] = []
  #fetching: Promise<void> | null = null
  readonly #mayTake: () => boolean
  readonly #isPaused: () => boolean

  /** @param on.mayTake called before a task is handed out; false keeps the task */
  constructor(input: RolloutInput, on: { mayTake: () => boolean; isPaused: () => boolean }) {
    this.#input = input
    this.#mayTake = on.mayTake
    this.#isPaused = on.isPaused
    this.#next = input.from ?? 0
    this.#fetched = this.#next
  }

  /** @returns null if no task is left or may be taken; undefined if the rollout was paused while a page was read */
  async next(): Promise<string | null | undefined> {
    while (this.#page.length === 0) {
      if (this.#fetched >= this.#input.tasks) return null
      this.#fetching ??= this.#fetch()
      await this.#fetching
      if (this.#isPaused()) return undefined
    }
    if (!this.#mayTake()) return null
    this.#next++
    return this.#page.shift() ?? null
  }

  isDone(): boolean {
    return this.#next >= this.#input.tasks
  }

  position(): number {
    return this.#next
  }

  /** Reads the whole plan, for requests of operators. */
  async find(task: string): Promise<number | null> {
    const { plan, tasks } = this.#input
    for (let from = 0; from < tasks; from += PAGE) {
      const page = requireResult('readPlanPage', await control.readPlanPage({ plan, from, count: PAGE }))
      const place = page.indexOf(task)
      if (place >= 0) return from + place
    }
    return null
  }

  async #fetch(): Promise<void> {
    const { plan, tasks } = this.#input
    const ids = requireResult('readPlanPage', await control.readPlanPage({ plan, from: this.#fetched, count: PAGE }))
    // Otherwise the callers of `next` would request the same page forever.
    if (ids.length === 0) {
      throw failRun('Artifact.Corrupt', `Expected ${tasks} tasks in ${plan.key}, got ${this.#fetched}`)
    }
    this.#fetched += ids.length
    this.#page.push(...ids)
    this.#fetching = null
  }
}

function addGroup(counts: RolloutCounts, group: PromptGroupResult): void {
  counts.groups += 1
  counts.episodes += group.episodes
  counts.infra += group.infra
  counts.resolved += group.resolved
  counts.turns += group.turns
  counts.failure = group.failure ?? counts.failure
}

/** A group that is played again counts its recorded episodes anew. Those that were lost stay lost. */
function removeGroup(counts: RolloutCounts, group: PromptGroupResult): void {
  counts.groups -= 1
  counts.episodes -= group.episodes - group.infra
  counts.resolved -= group.resolved
  counts.turns -= group.turns
}

/** All of the first episodes were lost, so something that each of them needs is unavailable. The run stops with that code and can
 *  continue after a repair. */
function refuseHopeless(counts: RolloutCounts): void {
  const isHopeless = counts.infra === counts.episodes && counts.episodes >= ABORT_AFTER_ALL_LOST
  if (!isHopeless) return
  const code = isFailureCode(counts.failure) ? counts.failure : 'Unexpected'
  throw failRun(
    code,
    `All of the first ${counts.episodes} episodes were lost to infrastructure, the last one to ${code}`,
  )
}
