import { setCurrentDetails, setHandler, workflowInfo } from '@temporalio/workflow'
import type { WorkflowWait, WorkflowWaits } from '../contracts/waits.types.ts'
import type {
  ResolvedRun,
  RolloutReport,
  RunConfig,
  RunFailures,
  RunProgress,
  StageScore,
  WorkCount,
} from '../contracts/workflows.types.ts'
import { receiveSignal } from './receive-signal.ts'
import { describeRollout } from './rollout-table.ts'
import {
  blockersQuery,
  configQuery,
  failuresQuery,
  progressQuery,
  reportSignal,
  type RunAlarm,
  type RunControl,
} from './run-control.ts'

export interface RunBoardInput {
  /** Changed only through the board, so that what it shows is true. */
  steering: RunControl
  /** The first phase, and when it began. */
  phase: string
  since: Date
  /** Null until the run has its name. */
  run?: string | null
  scores?: readonly StageScore[]
  /** The phase with its progress. @default the phase */
  doing?: (phase: string) => string
  /** The work count of a phase that plays no episodes. @default null */
  work?: () => WorkCount | null
  /** The child that is awaited now; null if there is none, in which case the run's activities report their own waits. */
  openChild?: () => string | null
  /** Further paragraphs of this kind of run. */
  details: (run: string | null) => string[]
}

/**
 * What users see of a run that can be steered: its current details in the Temporal UI, and its answers to `progress`, `failures`,
 * `blockers` and `config`. The open rollout reports its progress from time to time. A phase is shown when it is entered; `done` is the
 * last one and waits for nothing.
 */
export class RunBoard {
  readonly #input: RunBoardInput
  #run: string | null
  #phase: string
  #since: Date
  #pausedSince: Date | null
  /** The reason for a pause that no operator requested. */
  #alarm: string | null = null
  #failure: string | null = null
  #resolved: ResolvedRun | null = null
  /** The last report of the open rollout; null once its phase is over. */
  #rollout: RolloutReport | null = null
  #failures: Pick<RunFailures, 'byCode' | 'last'> = { byCode: {}, last: [] }

  constructor(input: RunBoardInput) {
    this.#input = input
    this.#run = input.run ?? null
    this.#phase = input.phase
    this.#since = input.since
    this.#pausedSince = input.steering.paused ? input.since : null
    setHandler(progressQuery, () => this.progress())
    setHandler(blockersQuery, () => this.#waits())
    setHandler(configQuery, () => this.#config())
    setHandler(failuresQuery, () => ({ run: this.#run, failed: this.#failure, ...this.#failures }))
  }

  /**
   * Called once the root is complete, because the board shows what the root says. After a reset to its first task the reports of its
   * whole earlier life are there before it, and each is handled at once.
   */
  receiveReports(): void {
    receiveSignal(reportSignal, (report) => {
      // A report may leave them out.
      this.#rollout = { ...report, score: report.score ?? null, eta: report.eta ?? null }
      this.#failures = { byCode: report.failures, last: report.errors }
      this.show()
    })
  }

  /** Sets the run's name. */
  name(run: string, resolved: ResolvedRun | null = null): void {
    this.#run = run
    this.#resolved = resolved
  }

  enter(phase: string): void {
    this.#phase = phase
    this.#rollout = null
    this.#since = new Date()
    this.show()
  }

  fail(message: string): void {
    this.#failure = message
    this.show()
  }

  /** @returns whether the state has changed */
  steer(change: Partial<RunControl>): boolean {
    const { steering } = this.#input
    const before = JSON.stringify(this.#steered())
    Object.assign(steering, change)
    if (!steering.paused) this.#alarm = null
    this.#pausedSince = steering.paused ? (this.#pausedSince ?? new Date()) : null
    this.show()
    return JSON.stringify(this.#steered()) !== before
  }

  pauseOnAlarm({ stage, iteration, why }: RunAlarm): void {
    this.#alarm = `${stage}, iteration ${iteration}: ${why}`
    this.steer({ paused: true })
  }

  progress(): RunProgress {
    const { scores = [] } = this.#input
    const work = this.#input.work?.() ?? null
    return {
      run: this.#run,
      phase: this.#doing(),
      ...this.#steered(),
      rollout: this.#rollout,
      scores: [...scores],
      waitingFor: this.#phase === 'done' ? null : { what: this.#phase, since: this.#since.toISOString() },
      ...(work === null ? {} : { work }),
    }
  }

  #steered(): Pick<RunProgress, 'paused' | 'pause' | 'limits' | 'stopAfterIteration'> {
    const { paused, hard, stopAfterIteration, concurrency = null } = this.#input.steering
    const mode = hard === true ? 'hard' : 'soft'
    return { paused, pause: paused ? mode : null, limits: { concurrency }, stopAfterIteration }
  }

  #config(): RunConfig {
    const { limits, stopAfterIteration } = this.#steered()
    return { resolved: this.#resolved, limits, stopAfterIteration }
  }

  show(): void {
    const { pause, limits } = this.#steered()
    const how = pause === 'hard' ? 'paused, open episodes hold,' : 'paused'
    const paused = this.#alarm === null ? how : `paused by an alarm (${this.#alarm})`
    const notes = [
      `**${this.#run ?? '…'}** · ${this.#phase} (since ${this.#since.toISOString()})`,
      this.#pausedSince === null
        ? ''
        : `**waits for an operator**: ${paused} since ${this.#pausedSince.toISOString()}; send the update \`resume\` to continue`,
      limits.concurrency === null ? '' : `An operator set the number of open tasks to ${limits.concurrency}.`,
      this.#failure === null ? '' : `**failed**: ${this.#failure}`,
      ...this.#input.details(this.#run),
      this.#describeViewer(),
      ...this.#describeRollout(),
    ]
    setCurrentDetails(notes.filter((note) => note !== '').join('\n\n'))
  }

  #describeViewer(): string {
    const run = this.#run
    if (run === null) return ''
    const command = `\`longhaul view ${run}\``
    const viewer = this.#resolved?.viewer
    return viewer === undefined
      ? `Its trajectories: ${command}`
      : `[Its trajectories](${viewer}#/run/${encodeURIComponent(run)}) in the viewer, served by ${command}`
  }

  #describeRollout(): string[] {
    const report = this.#rollout
    if (report === null) return []
    const { stage, iteration, at, workflowId } = report
    const where = iteration === 0 ? stage : `${stage}, iteration ${iteration}`
    const page = `/namespaces/${workflowInfo().namespace}/workflows/${encodeURIComponent(workflowId)}`
    return [
      `**${where}** at ${at.slice(0, 19).replace('T', ' ')} UTC · [its workflow](${page})`,
      describeRollout(report, { now: Date.now() }),
    ]
  }

  #doing(): string {
    const { doing } = this.#input
    return doing === undefined || this.#phase === 'done' ? this.#phase : doing(this.#phase)
  }

  #waits(): WorkflowWaits {
    if (this.#phase === 'done') return { run: this.#run, waits: [] }
    const name = this.#input.openChild?.() ?? workflowInfo().workflowId
    const work: WorkflowWait = {
      on: { kind: 'workflow', name },
      doing: this.#doing(),
      since: this.#since.toISOString(),
      toDo: null,
    }
    return { run: this.#run, waits: this.#pausedSince === null ? [work] : [this.#pause(this.#pausedSince), work] }
  }

  #pause(since: Date): WorkflowWait {
    const run = this.#run ?? workflowInfo().workflowId
    const resume = `longhaul run resume ${run}`
    return {
      on: {
        kind: 'person',
        name: this.#alarm === null ? 'the operator who paused it' : 'the operator who judges the alarm',
      },
      doing: this.#alarm === null ? `paused, ${this.#doing()}` : `paused by an alarm, ${this.#alarm}`,
      since: since.toISOString(),
      toDo:
        this.#alarm === null
          ? resume
          : `look at the policy server and at longhaul report ${run}; then ${resume}, or longhaul run stop ${run}`,
    }
  }
}
