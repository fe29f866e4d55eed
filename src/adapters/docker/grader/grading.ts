import { createHash } from 'node:crypto'
import { LonghaulError } from '../../../contracts/errors.ts'
import type { GradedPatch, GradingMachine } from '../../../contracts/sandbox.types.ts'
import type { FileToPack } from '../engine/tar.ts'
import type { AnswerReader, AnswerStream } from './grade-output.ts'
import { escapeBytes } from '../sandbox/runner-wire.ts'
import { readScript } from '../sandbox/runner-files.ts'
import { shellQuote } from '../../../platform/run-command.ts'

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

/**
 * A longer file is uploaded. The shell reads one of this length as text in 3 ms, or 15 ms if its bytes must be escaped; an upload costs
 * the engine 57 ms. A single argument of a program would end at 128 KiB, where `printf` is not of the shell.
 */
export const MAX_INLINE_BYTES = 96 * 1024

/** Text that `printf %s` prints unchanged. */
const PLAIN = /^[\t\n\x20-\x7e]*$/

/** Command of a grading's first process. It reads its script from stdin, because an upload of any size costs the engine 57
 *  ms of CPU. Some versions of `head` read beyond the requested bytes of a pipe, so nothing may follow the script. */
export function gradeCommand(seconds: number): string[] {
  return ['/bin/sh', '-c', 'read -r lh_bytes && eval "$(head -c "$lh_bytes")"', 'grade', String(seconds)]
}

export interface GradeInput {
  /** Written to the main process's stdin. */
  text: string
  /** Files that are too long for the text: they must be there before it is written. */
  large: readonly FileToPack[]
}

interface EncodeInput {
  files: readonly FileToPack[]
  /** What the main process runs after it has written the files. */
  script: 'audit.sh' | 'grade.sh'
  /** Random separator between the parts of an answer. No process inside may know it before it is sent. */
  mark: string
  /** How long the script waits after its answer for its end from outside. @default it ends at once */
  lingerS?: number
}

export async function encodeGradeInput({ files, script, mark, lingerS = 0 }: EncodeInput): Promise<GradeInput> {
  const { true: large = [], false: small = [] } = Object.groupBy(files, ({ body }) =>
    String((body?.length ?? 0) > MAX_INLINE_BYTES),
  )
  // A truncated patch or script must not be judged.
  const making = [...folders(small), ...small.flatMap(writing)].map((line) => `${line} || exit 1`)
  const text = [`lh_mark=${mark} lh_linger=${lingerS}`, 'umask 022', ...making, await readScript(script)].join('\n')
  return {
    text: `${Buffer.byteLength(text)}\n${text}`,
    large,
  }
}

function folders(files: readonly FileToPack[]): string[] {
  const own = files.filter(({ body }) => body === undefined).map(({ name }) => shellQuote(`/${name}`))
  const parents = new Set(files.map(({ name }) => `/${name.split('/').slice(0, -1).join('/')}`))
  // Every image has the root directory.
  parents.delete('/')
  parents.delete('/tmp')
  // An upload of long files has made some of them, open to other users.
  const closing = `mkdir -p ${own.join(' ')} && chmod 700 ${own.join(' ')}`
  return [closing, `mkdir -p ${[...parents].map(shellQuote).join(' ')}`]
}

function writing({ name, body, mode }: FileToPack): string[] {
  if (body === undefined) return []
  const path = shellQuote(`/${name}`)
  const bytes = Buffer.from(body)
  const text = bytes.toString('latin1')
  const content = PLAIN.test(text) ? `%s ${shellQuote(text)}` : `%b ${shellQuote(escapeBytes(bytes))}`
  return [`printf ${content} >${path}`, ...((mode & 0o100) === 0 ? [] : [`chmod ${mode.toString(8)} ${path}`])]
}
