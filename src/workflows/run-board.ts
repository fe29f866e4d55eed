import { setCurrentDetails, setHandler, workflowInfo } from '@temporalio/workflow'
import type { WorkflowWait, WorkflowWaits } from '../contracts/waits.types.ts'
import type { RunProgress, StageScore } from '../contracts/workflows.types.ts'
import { blockersQuery, progressQuery, type RunAlarm, type RunControl } from './run-control.ts'

export interface RunBoardInput {
  /** Changed through the board alone, so that what is shown is true. */
  steering: RunControl
  /** The first phase, and when it began. */
  phase: string
  since: Date
  /** Null until the run has its name. */
  run?: string | null
  scores?: readonly StageScore[]
  /** The phase with how far it is. @default the phase */
  doing?: (phase: string) => string
  /** The child that is waited for now; null: none, its own activities answer for themselves. */
  openChild?: () => string | null
  /** Paragraphs that this kind of run adds. */
  details: (run: string | null) => string[]
}

/**
 * What users see of a run that can be steered: its current details in the Temporal UI, and its answers to `progress` and
 * `blockers`. A phase is shown when it is entered; `done` is the last one and has no wait.
 */
export class RunBoard {
  readonly #input: RunBoardInput
  #run: string | null
  #phase: string
  #since: Date
  #pausedSince: Date | null
  /** What paused the run, where no person did. */
  #alarm: string | null = null
  #failure: string | null = null

  constructor(input: RunBoardInput) {
    this.#input = input
    this.#run = input.run ?? null
    this.#phase = input.phase
    this.#since = input.since
    this.#pausedSince = input.steering.paused ? input.since : null
    setHandler(progressQuery, () => this.progress())
    setHandler(blockersQuery, () => this.#waits())
  }

  name(run: string): void {
    this.#run = run
  }

  enter(phase: string): void {
    this.#phase = phase
    this.#since = new Date()
    this.show()
  }

  fail(message: string): void {
    this.#failure = message
    this.show()
  }

  steer(change: Partial<RunControl>): RunProgress {
    const { steering } = this.#input
    Object.assign(steering, change)
    if (!steering.paused) this.#alarm = null
    this.#pausedSince = steering.paused ? (this.#pausedSince ?? new Date()) : null
    this.show()
    return this.progress()
  }

  pauseOnAlarm({ stage, iteration, why }: RunAlarm): void {
    this.#alarm = `${stage}, iteration ${iteration}: ${why}`
    this.steer({ paused: true })
  }

  progress(): RunProgress {
    const { steering, scores = [] } = this.#input
    return {
      run: this.#run,
      phase: this.#doing(),
      paused: steering.paused,
      stopAfterIteration: steering.stopAfterIteration,
      scores: [...scores],
      waitingFor: this.#phase === 'done' ? null : { what: this.#phase, since: this.#since.toISOString() },
    }
  }

  show(): void {
    const paused = this.#alarm === null ? 'paused' : `paused by an alarm (${this.#alarm})`
    const notes = [
      `**${this.#run ?? '…'}** · ${this.#phase} (since ${this.#since.toISOString()})`,
      this.#pausedSince === null
        ? ''
        : `**waits for a person**: ${paused} since ${this.#pausedSince.toISOString()}; send the update \`resume\` to go on`,
      this.#failure === null ? '' : `**failed**: ${this.#failure}`,
      ...this.#input.details(this.#run),
    ]
    setCurrentDetails(notes.filter((note) => note !== '').join('\n\n'))
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
