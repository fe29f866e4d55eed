import { LonghaulError } from '../contracts/errors.ts'

export interface StepContext {
  /** Aborted by a time-out, an interrupt or another step's failure. */
  signal: AbortSignal
  /** Says what is being done. */
  log: (line: string) => void
}

export interface StepInput<T> {
  name: string
  /** A bound for a wait that should never happen; each step says where its number comes from. */
  timeoutMs: number
  /** Steps that must have ended well before this one starts; its clock starts after them. */
  after?: Promise<unknown>[]
  /** `did` is what the closing line says: "cached", "built", ... */
  action: (context: StepContext) => Promise<{ value: T; did: string }>
}

export interface StepTiming {
  name: string
  did: string
  seconds: number
}

export interface StepRunnerInput {
  /** One line at a time; no terminal control codes. */
  log: (line: string) => void
  signal?: AbortSignal | undefined
}

/** Runs set-up steps side by side. The first failure aborts the others, waits for them, and is the error that is thrown. */
export class StepRunner {
  readonly timings: StepTiming[] = []
  readonly #log: (line: string) => void
  readonly #abort = new AbortController()
  readonly #signal: AbortSignal
  readonly #running: Promise<unknown>[] = []
  #firstError: unknown

  constructor({ log, signal }: StepRunnerInput) {
    this.#log = log
    this.#signal = signal === undefined ? this.#abort.signal : AbortSignal.any([signal, this.#abort.signal])
  }

  step<T>(input: StepInput<T>): Promise<T> {
    const result = this.#run(input)
    // Callers await `all()`; a rejection in between must not count as unhandled.
    result.catch(() => undefined)
    this.#running.push(result)
    return result
  }

  /** @throws the first step's error once every step has ended */
  async all(): Promise<void> {
    await Promise.allSettled(this.#running)
    if (this.#firstError !== undefined) throw this.#firstError
  }

  async #run<T>({ name, timeoutMs, after = [], action }: StepInput<T>): Promise<T> {
    await Promise.all(after)
    const started = Date.now()
    try {
      this.#signal.throwIfAborted()
      const timeout = AbortSignal.timeout(timeoutMs)
      const context: StepContext = {
        signal: AbortSignal.any([this.#signal, timeout]),
        log: (line) => this.#print(name, line),
      }
      const { value, did } = await action(context).catch((error: unknown) => {
        throw timeout.aborted && !this.#signal.aborted ? tookTooLong(name, timeoutMs, error) : error
      })
      const seconds = (Date.now() - started) / 1000
      this.timings.push({ name, did, seconds })
      this.#print(name, `${did} (${seconds.toFixed(1)} s)`)
      return value
    } catch (error) {
      this.#firstError ??= error
      this.#abort.abort(error)
      throw error
    }
  }

  #print(name: string, line: string): void {
    this.#log(`set-up  ${name.padEnd(14)}  ${line}`)
  }
}

function tookTooLong(name: string, timeoutMs: number, cause: unknown): LonghaulError {
  return new LonghaulError({
    code: 'Stack.SetupFailed',
    message: `The step "${name}" took longer than ${Math.round(timeoutMs / 1000)} s and was stopped. It is safe to run again.`,
    cause,
  })
}
