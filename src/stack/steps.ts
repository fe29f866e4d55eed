import { LonghaulError } from '../contracts/errors.ts'
import { type Clock, systemClock } from '../platform/clock.ts'

export interface StepContext {
  /** Aborted by a timeout, an interrupt or another step's failure. */
  signal: AbortSignal
  /** Logs what the step is doing. */
  log: (line: string) => void
  /** Records an output line of the running program, shown if the step takes long. @default no line is shown */
  saw?: ((line: string) => void) | undefined
}

/** Current progress, for displays. */
export interface SetUpBoard {
  steps: Map<string, RunningStep>
  /** What `up` waits for outside the steps; empty if nothing. */
  waiting: string
}

interface RunningStep {
  /** ms since 1970. */
  sinceMs: number
  /** Since the step last logged or its program last printed, in ms that this process ran: a suspended machine is not a silent step. */
  silentMs: number
  /** The same since the start of the step. */
  ranMs: number
  /** The last line that the step logged or its program printed. */
  last: string
}

export const emptyBoard = (): SetUpBoard => ({ steps: new Map(), waiting: '' })

/** One line; empty if nothing is in progress. */
export function describeBoard({ steps, waiting }: SetUpBoard, nowMs: number): string {
  const running = [...steps].map(([name, { sinceMs, last }]) => {
    const seconds = Math.round((nowMs - sinceMs) / 1000)
    return `${name} ${seconds} s${last === '' ? '' : ` (${last.slice(0, 100)})`}`
  })
  if (running.length > 0) return `setting up: ${running.join(', ')}`
  return waiting === '' ? '' : `waiting for ${waiting}`
}

export interface StepInput<T> {
  name: string
  /** Longest time in which the step logs nothing and its program prints nothing. A slow machine or connection needs many times the usual
   *  duration, so the duration says nothing about a hang. */
  silenceMs: number
  /** Steps that must succeed before this one starts; its limits begin after them. */
  after?: Promise<unknown>[]
  /** `did` is the text of the closing line: "cached", "built", ... */
  action: (context: StepContext) => Promise<{ value: T; did: string }>
}

export interface StepTiming {
  name: string
  did: string
  seconds: number
}

export interface StepRunnerInput {
  /** Receives one line at a time, without terminal control codes. */
  log: (line: string) => void
  signal?: AbortSignal | undefined
  /** Progress for a display. @default none: the log itself repeats it now and then */
  board?: SetUpBoard | undefined
  clock?: Clock
}

/** Longest time without a log line, and the interval at which the limits of a step are looked at. */
const REPEAT_MS = 30_000
/** Longest duration of a step or of one of its programs, which only endless chatter reaches. */
export const LONGEST_STEP_MS = 4 * 60 * 60_000

/** Runs setup steps concurrently. The first failure aborts the others; `all` throws it once they have ended. */
export class StepRunner {
  readonly timings: StepTiming[] = []
  readonly #log: (line: string) => void
  readonly #abort = new AbortController()
  readonly #signal: AbortSignal
  readonly #running: Promise<unknown>[] = []
  readonly #board: SetUpBoard
  readonly #saysItself: boolean
  readonly #clock: Clock
  #firstError: unknown

  constructor({ log, signal, board, clock = systemClock }: StepRunnerInput) {
    this.#log = log
    this.#board = board ?? emptyBoard()
    this.#saysItself = board === undefined
    this.#clock = clock
    this.#signal = signal === undefined ? this.#abort.signal : AbortSignal.any([signal, this.#abort.signal])
  }

  step<T>(input: StepInput<T>): Promise<T> {
    const result = this.#run(input)
    // Callers await `all()`; an earlier rejection must not count as unhandled.
    result.catch(() => undefined)
    this.#running.push(result)
    return result
  }

  /** @throws the error of the first failed step, once every step has ended */
  async all(): Promise<void> {
    await Promise.allSettled(this.#running)
    if (this.#firstError !== undefined) throw this.#firstError
  }

  async #run<T>({ name, silenceMs, after = [], action }: StepInput<T>): Promise<T> {
    await Promise.all(after)
    const started = Date.now()
    const running: RunningStep = { sinceMs: this.#clock.now(), silentMs: 0, ranMs: 0, last: '' }
    const overdue = new AbortController()
    const stopRepeating = this.#clock.repeat(REPEAT_MS, () => {
      this.#repeatLine(name, running)
      running.silentMs += REPEAT_MS
      running.ranMs += REPEAT_MS
      const why = lateness(running, silenceMs)
      if (why !== null) overdue.abort(tookTooLong(name, why))
    })
    this.#board.steps.set(name, running)
    try {
      this.#signal.throwIfAborted()
      const hear = (line: string): void => {
        running.last = line
        running.silentMs = 0
      }
      const context: StepContext = {
        signal: AbortSignal.any([this.#signal, overdue.signal]),
        log: (line) => {
          hear(line)
          this.#print(name, line)
        },
        saw: (line) => {
          if (line.trim() !== '') hear(line.trim())
        },
      }
      const { value, did } = await action(context).catch((error: unknown) => {
        throw overdue.signal.aborted && !this.#signal.aborted ? overdue.signal.reason : error
      })
      const seconds = (Date.now() - started) / 1000
      this.timings.push({ name, did, seconds })
      this.#print(name, `${did} (${seconds.toFixed(1)} s)`)
      return value
    } catch (error) {
      this.#firstError ??= error
      this.#abort.abort(error)
      throw error
    } finally {
      stopRepeating()
      this.#board.steps.delete(name)
    }
  }

  #repeatLine(name: string, { sinceMs, last }: RunningStep): void {
    if (!this.#saysItself) return
    const seconds = Math.round((this.#clock.now() - sinceMs) / 1000)
    this.#print(name, `running for ${seconds} s${last === '' ? '' : `: ${last.slice(0, 200)}`}`)
  }

  #print(name: string, line: string): void {
    this.#log(`set-up  ${name.padEnd(14)}  ${line}`)
  }
}

function lateness({ silentMs, ranMs }: RunningStep, silenceMs: number): string | null {
  if (silentMs >= silenceMs) return `showed no progress for ${Math.round(silenceMs / 1000)} s`
  return ranMs >= LONGEST_STEP_MS ? `took longer than ${LONGEST_STEP_MS / 3_600_000} hours` : null
}

function tookTooLong(name: string, why: string): LonghaulError {
  return new LonghaulError({
    code: 'Stack.SetupFailed',
    message: `The step "${name}" ${why} and was stopped. It is safe to run again.`,
  })
}
