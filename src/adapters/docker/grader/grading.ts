import { createHash } from 'node:crypto'
import { LonghaulError } from '../../../contracts/errors.ts'
import type { GradedPatch, GradingMachine } from '../../../contracts/sandbox.types.ts'
import type { FileToPack } from '../engine/tar.ts'
import type { EncodeInput } from './grade-input.ts'
import type { AnswerReader, AnswerStream } from './grade-output.ts'

/** Slack beyond the deadline inside a grader: start, apply and a loaded machine. */
export const GRADING_SLACK_MS = 60_000

/** A script that runs in a fresh container or pod, and how its answer is read. */
export interface Grading<T> {
  patch: GradedPatch
  script: EncodeInput['script']
  files: readonly FileToPack[]
  /** Limit of the tests. */
  testTimeoutMs: number
  /** Of everything in the grader but its start. */
  timeoutMs: number
  read: (mark: string) => AnswerReader<T>
  /** The answer of a grader that still runs at the end of its time. */
  overdue: () => T
}

export interface GradingAnswered<T> {
  answer: T
  /** Before the script ran, by the clock of the answer. */
  startMs: number
  imageDigest: string
  machine: GradingMachine
}

/** Runs a script in a fresh container or pod, which is removed before this returns.
 *  @throws LonghaulError `Sandbox.ImageMissing`, `Sandbox.Stalled`, `Sandbox.OutOfDisk`, `Grading.Failed`, `Grading.Ended` */
export type Grader = <T>(grading: Grading<T>, signal: AbortSignal) => Promise<GradingAnswered<T>>

/** Several patches of one episode may be graded concurrently, and two runs may gate the same task, so both are part of the name. */
export function namePartsOf({ patch, script, files }: Grading<unknown>): string[] {
  const what = createHash('sha256').update(`${patch.run}\0${script}\0`)
  for (const { name, body = '' } of files) what.update(`${name}\0`).update(body).update('\0')
  const hash = what.digest('hex').slice(0, 8)
  // First, so that it stays in a name that is too long.
  const kind = script === 'audit.sh' ? ['audit'] : []
  return [...kind, patch.episode, patch.role, hash]
}

interface AnswerInTimeInput<T> {
  timeoutMs: number
  signal: AbortSignal
  /** The answer of a grader without one at the end of its time. @throws LonghaulError if its tests are not to blame */
  overdue: () => Promise<T>
  /** Why there is no answer. */
  lost: () => Promise<LonghaulError>
}

export async function answerInTime<T>(
  stream: AnswerStream<T>,
  { timeoutMs, signal, overdue, lost }: AnswerInTimeInput<T>,
): Promise<T> {
  // An abort during the start has no listener yet, and an already aborted signal fires no event.
  signal.throwIfAborted()
  const { promise: interrupted, resolve, reject } = Promise.withResolvers<'overdue'>()
  const onAbort = (): void => reject(signal.reason as Error)
  const timer = setTimeout(() => resolve('overdue'), timeoutMs)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    const output = await Promise.race([stream.answer, interrupted])
    if (output === 'overdue') return await overdue()
    if (output !== null) return output
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', onAbort)
  }
  throw await lost()
}

export function stalled(grader: string, timeoutMs: number): LonghaulError {
  return new LonghaulError({
    code: 'Sandbox.Stalled',
    message: 'A grader did not end by its own deadline',
    details: { grader, timeoutMs },
  })
}
