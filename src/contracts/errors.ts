import { FAILURE_CODES, isFailureCode, type FailureCode } from './failure-codes.ts'

export interface LonghaulErrorInput {
  code: FailureCode
  /** What was expected and what came; facts are appended in brackets from `details`. */
  message: string
  /** Small scalars only: they travel through Temporal histories. */
  details?: Record<string, string | number | boolean | null>
  cause?: unknown
}

/** Characters. Longer texts come from servers, files and agents, and say no more by their length. */
const MOST_FACT = 2_000
const MOST_MESSAGE = 100_000

/** The one error class. Compare `code`, never the class or the text: classes do not survive the workflow sandbox. */
export class LonghaulError extends Error {
  readonly code: FailureCode
  readonly details: Record<string, string | number | boolean | null>

  constructor({ code, message, details = {}, cause }: LonghaulErrorInput) {
    const facts = Object.fromEntries(Object.entries(details).map(([key, value]) => [key, fit(value, MOST_FACT)]))
    super(fit(withFacts(message, facts), MOST_MESSAGE), cause === undefined ? undefined : { cause })
    this.name = 'LonghaulError'
    this.code = code
    this.details = facts
  }

  get retryable(): boolean {
    return FAILURE_CODES[this.code].retryable
  }
}

export function isLonghaulError(value: unknown): value is LonghaulError {
  return value instanceof Error && isFailureCode((value as { code?: unknown }).code)
}

/** The only door from `unknown`: keeps a `LonghaulError`, wraps everything else as `Unexpected`. */
export function toLonghaulError(value: unknown): LonghaulError {
  if (isLonghaulError(value)) return value
  const message = value instanceof Error ? value.message : String(value)
  return new LonghaulError({ code: 'Unexpected', message, cause: value })
}

/** Message of a query that fails, see `workflows/query-interceptors.ts`. Users read it in the Temporal UI. */
export const EARLY_QUERY =
  'The workflow has events that its next workflow task has not yet processed, and no worker has its state in memory. Ask again in a second.'

export function isEarlyQuery(error: unknown): boolean {
  return error instanceof Error && error.message.includes(EARLY_QUERY)
}

/** Closes a switch over a union: the compiler proves that no case is missing. */
export function assertNever(value: never): never {
  throw new LonghaulError({ code: 'Unexpected', message: `Unhandled case ${JSON.stringify(value)}` })
}

/** Cut to `most` characters, and without halves of characters: no file, no terminal and no message of Temporal can hold one. */
function fit<T>(value: T, most: number): T | string {
  if (typeof value !== 'string') return value
  return (value.length <= most ? value : `${value.slice(0, most - 1)}…`).toWellFormed()
}

function withFacts(message: string, details: Record<string, string | number | boolean | null>): string {
  const facts = Object.entries(details).map(([key, value]) => `${key}=${value}`)
  return facts.length === 0 ? message : `${message} [${facts.join(', ')}]`
}
