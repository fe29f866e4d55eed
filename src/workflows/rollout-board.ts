import { getExternalWorkflowHandle, log, setCurrentDetails, setHandler, workflowInfo } from '@temporalio/workflow'
import type {
  PromptGroupResult,
  RolloutCounts,
  RolloutInput,
  RolloutReport,
  RolloutTally,
} from '../contracts/workflows.types.ts'
import { NO_SCORE, addTask, isReportDue, scoreSoFar } from '../domain/statistics/running-score.ts'
import { describeRollout } from './rollout-table.ts'
import { failuresQuery, reportSignal, rolloutQuery, type RunControl } from './run-control.ts'

const SLOWEST = 5
const ERRORS = 5
/** Limit of incomplete groups that are carried to a new execution, so that the payload stays small. */
const CARRIED = 8

/** With fewer groups, the rate is not meaningful. */
const ENOUGH_FOR_ETA = 2

/** What users see of a rollout: current details, the queries `progress` and `failures`, and the reports to its root. */
export class RolloutBoard {
  /** Number of incomplete groups of earlier executions that are unknown here. */
  readonly forgotten: number
  readonly #input: RolloutInput
  readonly #counts: RolloutCounts
  readonly #steering: RunControl
  readonly #tally: RolloutTally
  readonly #openSince = new Map<string, number>()
  #toldAt = 0
  #continuedIn: string | null = null

  constructor({ input, counts, steering }: { input: RolloutInput; counts: RolloutCounts; steering: RunControl }) {
    this.#input = input
    this.#counts = counts
    this.#steering = steering
    this.#tally = begin(input.counts?.tally)
    this.forgotten = input.counts?.tally?.forgotten ?? 0
    for (const { task, since } of input.part?.slowest ?? []) this.#openSince.set(task, Date.parse(since))
    setHandler(rolloutQuery, () => this.report())
    setHandler(failuresQuery, () => ({
      run: input.run,
      failed: null,
      byCode: this.#tally.failures,
      last: this.#tally.errors,
    }))
  }

  /** The state for the next execution. */
  tally(): RolloutTally {
    const incomplete = this.#tally.incomplete.slice(0, CARRIED)
    const forgotten = this.forgotten + this.#tally.incomplete.length - incomplete.length
    return { ...this.#tally, incomplete, ...(forgotten === 0 ? {} : { forgotten }) }
  }

  /** Hands over to the part with that id, which counts and reports from now on. */
  continueIn(part: string): void {
    this.#continuedIn = part
    this.show()
  }

  began(task: string): void {
    this.#openSince.set(task, Date.now())
  }

  ended(group: PromptGroupResult): void {
    const { taskId, valid, resolved, infra, failure, endings = {} } = group
    const tally = this.#tally
    this.#openSince.delete(taskId)
    for (const [ending, count] of Object.entries(endings)) tally.endings[ending] = (tally.endings[ending] ?? 0) + count
    tally.score = addTask(tally.score, { resolved, valid })
    if (infra > 0 && failure !== null) {
      tally.failures[failure] = (tally.failures[failure] ?? 0) + infra
      tally.errors = [{ task: taskId, failure, at: new Date().toISOString() }, ...tally.errors].slice(0, ERRORS)
    }
    if (valid < this.#input.groupSize) tally.incomplete = [group, ...tally.incomplete]
    this.show()
  }

  /** Removes an incomplete group that is to be played again. */
  takeIncomplete(task: string): PromptGroupResult | null {
    const tally = this.#tally
    const group = tally.incomplete.find(({ taskId }) => taskId === task)
    if (group === undefined) return null
    tally.incomplete = tally.incomplete.filter((one) => one !== group)
    tally.score = addTask(tally.score, group, -1)
    for (const [ending, count] of Object.entries(group.endings ?? {})) {
      if (!LOST.has(ending)) tally.endings[ending] = (tally.endings[ending] ?? 0) - count
    }
    return group
  }

  /** Reports progress to the root, unless it did so shortly before. */
  async tell(): Promise<void> {
    const { board } = this.#input
    if (board === undefined) return
    const now = Date.now()
    if (!isReportDue({ now, toldAt: this.#toldAt, since: board.since })) return
    this.#toldAt = now
    try {
      await getExternalWorkflowHandle(board.workflowId).signal(reportSignal, this.report())
    } catch (error) {
      log.info('report not delivered to the run', { error: String(error) })
    }
  }

  show(): void {
    const { groupSize } = this.#input
    const { paused, hard, concurrency = null } = this.#steering
    setCurrentDetails(
      [
        paused
          ? `**Paused**: ${hard === true ? 'open episodes hold' : 'open groups finish'}, no new group starts.`
          : '',
        this.#continuedIn === null
          ? ''
          : `**Continued** in workflow \`${this.#continuedIn.replaceAll('`', '?')}\`, which continues the counts. This part ends its open groups.`,
        concurrency === null ? '' : `An operator set the number of open tasks to ${concurrency}.`,
        describeRollout(this.report(), { now: Date.now(), groupSize }),
      ]
        .filter((part) => part !== '')
        .join('\n\n'),
    )
  }

  report(): RolloutReport {
    const { stage, iteration, tasks } = this.#input
    const { groups, episodes, resolved } = this.#counts
    const { endings, failures, errors, score } = this.#tally
    return {
      workflowId: workflowInfo().workflowId,
      stage,
      iteration,
      at: new Date().toISOString(),
      groups,
      tasks,
      episodes,
      resolved,
      endings,
      score: scoreSoFar(score),
      eta: this.#eta(),
      slowest: [...this.#openSince]
        .toSorted(([, a], [, b]) => a - b)
        .slice(0, SLOWEST)
        .map(([task, since]) => ({ task, since: new Date(since).toISOString() })),
      errors,
      failures,
      ...(this.#continuedIn === null ? {} : { continuedIn: this.#continuedIn }),
    }
  }

  #eta(): string | null {
    const { groups } = this.#counts
    const left = this.#input.tasks - groups
    if (groups < ENOUGH_FOR_ETA || left <= 0 || this.#steering.paused) return null
    const now = Date.now()
    return new Date(now + ((now - this.#tally.since) / groups) * left).toISOString()
  }
}

function begin(tally: RolloutTally | undefined): RolloutTally {
  const { since = Date.now(), endings, failures, errors = [], score = NO_SCORE, incomplete = [] } = tally ?? {}
  return { since, endings: { ...endings }, failures: { ...failures }, errors, score, incomplete }
}

/** Endings of episodes that count in no score. */
const LOST = new Set(['infra', 'cancelled', 'could-not-grade'])
