import {
  CancellationScope,
  continueAsNew,
  isCancellation,
  log,
  ParentClosePolicy,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow'
import { isFailureCode } from '../contracts/failure-codes.ts'
import { workflowIds } from '../contracts/workflow-ids.ts'
import type { PromptGroupResult, RolloutCounts, RolloutInput } from '../contracts/workflows.types.ts'
import { control } from './activity-proxies.ts'
import { failRun, withCode } from './failures.ts'
import { runChild } from './run-child.ts'
import { promptGroup } from './prompt-group.ts'
import { RolloutBoard } from './rollout-board.ts'
import {
  answerRequeue,
  controlSignal,
  passOn,
  type RequeueAnswer,
  requeueSignal,
  type RunControl,
  whilePaused,
} from './run-control.ts'
import { stageAttributes } from './search-attributes.ts'
import { runConcurrently } from './run-concurrently.ts'

/** Enough that one bad container is not mistaken for a dead server. */
const ABORT_AFTER_ALL_LOST = 12

/** Task ids fetched at once: 50 ids stay far below 4 KB of payload. */
const PAGE = 50

/**
 * Plays every task of a plan. Children: `promptGroup`, as many at a time as the recipe or an operator says. Continues as new, with its
 * counts, when the server suggests it and no child is open. A pause stops new groups and lets open ones finish; a hard one holds their
 * episodes too. A task that is requeued is cancelled where it is open, and played again where it lost episodes; recorded episodes count.
 * Query `progress`; it reports to its root now and then. On cancel, or when the run fails, the groups are cancelled and waited for.
 */
export async function rollout(input: RolloutInput): Promise<RolloutCounts> {
  const play = new Rollout(input)
  try {
    await play.playAll()
  } catch (error) {
    throw withCode(error)
  }
  return play.isDone() ? play.result() : continueAsNew<typeof rollout>(play.rest())
}

class Rollout {
  readonly #input: RolloutInput
  readonly #counts: RolloutCounts
  readonly #steering: RunControl
  readonly #board: RolloutBoard
  readonly #tasks: TaskCursor
  /** Open groups by task. `again`: its group is being cancelled, to be played again. */
  readonly #open = new Map<string, { scope: CancellationScope; again: boolean }>()
  /** Tasks to be played again before any other one. */
  readonly #again: string[] = []
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
    this.#tasks = new TaskCursor(input)
    setHandler(controlSignal, (next) => this.#steer(next))
    setHandler(requeueSignal, async (order) => answerRequeue(order, await this.#requeue(order.task)))
  }

  async playAll(): Promise<void> {
    await runConcurrently({
      concurrency: () => Math.max(1, this.#steering.concurrency ?? this.#input.maxOpenGroups),
      onFailure: 'cancel',
      onStart: (widen) => {
        this.#widen = widen
      },
      runNext: () => this.#playNext(),
    })
  }

  isDone(): boolean {
    return this.#tasks.isDone() && this.#again.length === 0
  }

  result(): RolloutCounts {
    return { ...this.#counts }
  }

  rest(): RolloutInput {
    const { paused, concurrency = null } = this.#steering
    const counts = { ...this.#counts, tally: this.#board.tally() }
    return { ...this.#input, from: this.#tasks.position(), counts, paused, concurrency }
  }

  async #playNext(): Promise<boolean> {
    if (workflowInfo().continueAsNewSuggested) return false
    await whilePaused(this.#steering)
    const taskId = this.#again.shift() ?? (await this.#tasks.next())
    if (taskId === null) return false
    const group = await this.#playUntilKept(taskId)
    addGroup(this.#counts, group)
    this.#board.ended(group)
    refuseHopeless(this.#counts)
    await this.#board.tell()
    return true
  }

  /** A group that an operator cancels is played again; its recorded episodes are found. */
  async #playUntilKept(taskId: string): Promise<PromptGroupResult> {
    const outer = CancellationScope.current()
    for (;;) {
      const scope = new CancellationScope()
      const open = { scope, again: false }
      this.#open.set(taskId, open)
      this.#board.began(taskId)
      try {
        return await scope.run(() => playGroup(this.#input, taskId))
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
    if (held === wasHeld) return
    // Below this workflow a pause is a hard one.
    const order: RunControl = { paused: held, stopAfterIteration: null }
    const groups = [...this.#open.keys()].map((task) => workflowIds.group(workflowInfo().workflowId, task))
    await Promise.all(groups.map((group) => passOn(group, order)))
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
    if (place === null) return { kind: 'refused', note: `No task ${task} in ${workflowInfo().workflowId}` }
    return place < this.#tasks.position()
      ? { kind: 'unchanged', note: `${task} has ended with all of its episodes graded` }
      : { kind: 'unchanged', note: `${task} has not been begun yet` }
  }
}

function isHeld({ paused, hard }: RunControl): boolean {
  return paused && hard === true
}

/** Hands out the plan's task ids in order; concurrent callers each get another one. */
class TaskCursor {
  readonly #input: RolloutInput
  #next: number
  #fetched: number
  #page: string[] = []
  #fetching: Promise<void> | null = null

  constructor(input: RolloutInput) {
    this.#input = input
    this.#next = input.from ?? 0
    this.#fetched = this.#next
  }

  async next(): Promise<string | null> {
    while (this.#page.length === 0) {
      if (this.#fetched >= this.#input.tasks) return null
      this.#fetching ??= this.#fetch()
      await this.#fetching
    }
    this.#next++
    return this.#page.shift() ?? null
  }

  isDone(): boolean {
    return this.#next >= this.#input.tasks
  }

  position(): number {
    return this.#next
  }

  /** Reads the whole plan: for questions of people. */
  async find(task: string): Promise<number | null> {
    const { plan, tasks } = this.#input
    for (let from = 0; from < tasks; from += PAGE) {
      const place = (await control.readPlanPage({ plan, from, count: PAGE })).indexOf(task)
      if (place >= 0) return from + place
    }
    return null
  }

  async #fetch(): Promise<void> {
    const ids = await control.readPlanPage({ plan: this.#input.plan, from: this.#fetched, count: PAGE })
    this.#fetched += ids.length
    this.#page.push(...ids)
    this.#fetching = null
  }
}

function playGroup(input: RolloutInput, taskId: string): Promise<PromptGroupResult> {
  const { run, stage, iteration, suite, groupSize, maxReplacements } = input
  const policy = input.policy.version
  return runChild(promptGroup, {
    workflowId: workflowIds.group(workflowInfo().workflowId, taskId),
    args: [{ run, stage, iteration, policy, suite, taskId, groupSize, maxReplacements }],
    parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
    typedSearchAttributes: stageAttributes({ run, stage, iteration, policy }),
    staticSummary: `${taskId} · ${groupSize} × ${policy}`,
  })
}

function addGroup(counts: RolloutCounts, group: PromptGroupResult): void {
  counts.groups += 1
  counts.episodes += group.episodes
  counts.infra += group.infra
  counts.resolved += group.resolved
  counts.turns += group.turns
  counts.failure = group.failure ?? counts.failure
}

/** Played again, it counts its recorded episodes anew; those that were lost stay lost. */
function removeGroup(counts: RolloutCounts, group: PromptGroupResult): void {
  counts.groups -= 1
  counts.episodes -= group.episodes - group.infra
  counts.resolved -= group.resolved
  counts.turns -= group.turns
}

/** All of the first episodes are lost: something that each needs is down. The run stops with that code, and continues after a repair. */
function refuseHopeless(counts: RolloutCounts): void {
  const isHopeless = counts.infra === counts.episodes && counts.episodes >= ABORT_AFTER_ALL_LOST
  if (!isHopeless) return
  const code = isFailureCode(counts.failure) ? counts.failure : 'Unexpected'
  throw failRun(
    code,
    `All of the first ${counts.episodes} episodes were lost to infrastructure, the last one to ${code}`,
  )
}
