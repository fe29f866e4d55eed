import { continueAsNew, ParentClosePolicy, setCurrentDetails, setHandler, workflowInfo } from '@temporalio/workflow'
import { isFailureCode } from '../contracts/failure-codes.ts'
import { workflowIds } from '../contracts/workflow-ids.ts'
import type { PromptGroupResult, RolloutCounts, RolloutInput } from '../contracts/workflows.types.ts'
import { control } from './activity-proxies.ts'
import { failRun, withCode } from './failures.ts'
import { runChild } from './run-child.ts'
import { promptGroup } from './prompt-group.ts'
import { controlSignal, type RunControl, whilePaused } from './run-control.ts'
import { stageAttributes } from './search-attributes.ts'
import { runConcurrently } from './run-concurrently.ts'

/** Enough that one bad container is not mistaken for a dead server. */
const ABORT_AFTER_ALL_LOST = 12

/** Task ids fetched at once: 50 ids stay far below 4 KB of payload. */
const PAGE = 50

/**
 * Plays every task of a plan. Children: `promptGroup`, at most `maxOpenGroups` at a time. Continues as new, with its counts,
 * when the server suggests it and no child is open. Pausing stops new groups; open ones finish. On cancel, or when
 * the run fails, the groups are cancelled and waited for.
 */
export async function rollout(input: RolloutInput): Promise<RolloutCounts> {
  const counts: RolloutCounts = {
    ...(input.counts ?? { groups: 0, episodes: 0, infra: 0, resolved: 0, turns: 0, failure: null }),
  }
  const steering: RunControl = { paused: input.paused ?? false, stopAfterIteration: null }
  setHandler(controlSignal, (next) => {
    Object.assign(steering, next)
  })

  const tasks = new TaskCursor(input)
  const runNext = async (): Promise<boolean> => {
    if (workflowInfo().continueAsNewSuggested) return false
    await whilePaused(steering)
    const taskId = await tasks.next()
    if (taskId === null) return false
    addGroup(counts, await playGroup(input, taskId))
    refuseHopeless(counts)
    setCurrentDetails(describe(input, counts, steering))
    return true
  }
  try {
    await runConcurrently({ concurrency: Math.max(1, input.maxOpenGroups), onFailure: 'cancel', runNext })
  } catch (error) {
    throw withCode(error)
  }
  if (!tasks.isDone()) {
    return continueAsNew<typeof rollout>({ ...input, from: tasks.position(), counts, paused: steering.paused })
  }
  return counts
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

function describe(input: RolloutInput, counts: RolloutCounts, steering: RunControl): string {
  const valid = counts.episodes - counts.infra
  const share = valid === 0 ? '–' : (counts.resolved / valid).toFixed(3)
  return [
    `| groups | episodes | infra | resolved | share (provisional) | turns |`,
    `|---|---|---|---|---|---|`,
    `| ${counts.groups} / ${input.tasks} | ${counts.episodes} | ${counts.infra} | ${counts.resolved} | ${share} | ${
      valid === 0 ? '–' : (counts.turns / valid).toFixed(2)
    } |`,
    steering.paused ? '\n**Paused**: open groups finish, no new one starts.' : '',
    counts.failure === null ? '' : `\nThe last episode lost to infrastructure met ${counts.failure}.`,
  ].join('\n')
}
