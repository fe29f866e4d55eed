import { isLonghaulError, toLonghaulError } from '../../contracts/errors.ts'
import { FAILURE_CODES, type FailureCode, isRefusalOfInput } from '../../contracts/failure-codes.ts'
import type { RunOutcome } from '../../client/index.ts'

/** Documented; no number is ever reused. */
export const EXIT = {
  /** Work done, every requested threshold met. */
  ok: 0,
  /** Usage or configuration: nothing was played. */
  usage: 1,
  /** Infrastructure: nothing or too little was graded. */
  infra: 2,
  /** A threshold was missed with enough evidence. */
  threshold: 3,
  /** Worse than a baseline by more than is allowed, proven at the stated confidence. */
  regression: 4,
  /** SIGINT or SIGTERM. */
  interrupted: 130,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

const MEANINGS: Record<ExitCode, string> = {
  0: 'done, and every rule holds',
  1: 'usage or configuration, nothing was played',
  2: 'infrastructure: nothing or too little was graded',
  3: 'a threshold was missed',
  4: 'a regression is proven',
  130: 'interrupted',
}

export function describeExit(code: ExitCode): string {
  return MEANINGS[code]
}

/** Ends a command with its own exit code; the message has already been printed. */
export class ExitError extends Error {
  readonly exitCode: ExitCode

  constructor(exitCode: ExitCode) {
    super(`exit ${exitCode}`)
    this.name = 'ExitError'
    this.exitCode = exitCode
  }
}

/** The user's own mistakes are 1, everything else is 2. */
export function exitCodeOfFailure(code: FailureCode): ExitCode {
  return FAILURE_CODES[code].countsAs === 'user' ? EXIT.usage : EXIT.infra
}

export function exitCodeOfError(error: unknown): ExitCode {
  if (error instanceof ExitError) return error.exitCode
  return exitCodeOfFailure((isLonghaulError(error) ? error : toLonghaulError(error)).code)
}

/**
 * Exit code of a run that was started. Input that the run refuses before it plays anything is a usage error, as on the command line. A
 * later failure has used sandboxes or trainers and is 2, even if a task or a setting is to blame.
 */
export function exitCodeOfOutcome(outcome: RunOutcome<unknown>): ExitCode {
  switch (outcome.status) {
    case 'completed':
      return EXIT.ok
    case 'failed':
      if (outcome.hasPlayed === true) return EXIT.infra
      return isRefusalOfInput(outcome.code) ? EXIT.usage : EXIT.infra
    case 'cancelled':
    case 'terminated':
    case 'timed-out':
      return EXIT.infra
  }
}

/** 130 if present, else the lowest code other than 0. */
export function combineExitCodes(codes: readonly ExitCode[]): ExitCode {
  if (codes.includes(EXIT.interrupted)) return EXIT.interrupted
  const bad = codes.filter((code) => code !== EXIT.ok)
  return bad.length === 0 ? EXIT.ok : (Math.min(...bad) as ExitCode)
}
