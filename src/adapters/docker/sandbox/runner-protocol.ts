import { LonghaulError } from '../../../contracts/errors.ts'
import type { SandboxState } from '../../../contracts/episodes.types.ts'
import type {
  CaptureRequest,
  PatchCapture,
  TurnMark,
  TurnRequest,
  TurnResult,
} from '../../../contracts/sandbox.types.ts'
import { type SandboxSettings, environmentText, settingsText } from './runner-files.ts'
import { sha256Hex } from '../../../platform/hash.ts'

/** The shell cannot hold a NUL; the turn runs this instead, so that it is journaled and answered like any other. */
const NUL_REFUSAL = "echo 'The command holds a NUL byte and was not run.' >&2; false"

export function encodeTurn(request: TurnRequest): string {
  const text = request.command.includes('\0') ? NUL_REFUSAL : request.command
  const hash = sha256Hex(request.command)
  const fields = [
    request.turn,
    request.fence,
    request.token,
    Math.ceil(request.timeoutMs),
    request.maxOutputBytes,
    hash,
    encodeMark(request.after),
  ]
  return `turn ${fields.join(' ')} ${escapeBytes(Buffer.from(text))}\n`
}

export interface EncodeCaptureInput extends CaptureRequest {
  startCommit: string
  maxBytes: number
}

export function encodeCapture({ mode, startCommit, maxBytes, after }: EncodeCaptureInput): string {
  return `capture ${mode} ${startCommit} ${maxBytes} ${encodeMark(after)}\n`
}

export function encodeTree({ startCommit, after }: Pick<EncodeCaptureInput, 'startCommit' | 'after'>): string {
  return `tree ${startCommit} ${encodeMark(after)}\n`
}

function encodeMark(mark: TurnMark | null): string {
  return mark === null ? '-' : `${mark.turn}.${mark.token}`
}

/** Asks for what a sandbox needs before its first turn, or only whether that is there. */
export function encodeInit(settings: SandboxSettings | null): string {
  if (settings === null) return 'init\n'
  const words = [settings.repoDir, settingsText(settings), environmentText(settings)]
  return `init ${words.map((word) => escapeBytes(Buffer.from(word))).join(' ')}\n`
}

/** Printable ASCII but for `\` and `@` as it is, every other byte as `\0ooo`, which any shell's `printf %b` restores. */
export function escapeBytes(bytes: Buffer): string {
  let text = ''
  for (const byte of bytes) {
    const plain = byte > 0x20 && byte < 0x7f && byte !== 0x5c && byte !== 0x40
    text += plain ? String.fromCharCode(byte) : `\\0${byte.toString(8).padStart(3, '0')}`
  }
  return text
}

/** One answer of the runner: its first line in words, and what follows it. */
export interface RunnerReply {
  /** Of the request that it answers. */
  id: string
  words: string[]
  openFile: string
  /** Whole also where the runner left it out because this connection had it already; empty where an answer has none. */
  state: Buffer
  body: Buffer
}

/** A line of an answer: longer than any path that git quotes byte by byte. */
export const MAX_LINE_BYTES = 32 * 1024
/** What a shell hands to the next turn. The sandbox keeps the state before where it would be more. */
export const MAX_STATE_BYTES = 64 * 1024
/** The sandbox sends a hash in place of a longer listing; the state follows either. */
export const MAX_TREE_BYTES = 8 * 1024 * 1024 + MAX_STATE_BYTES

/** In place of the state's size: the same as in the answer before. */
const SAME_STATE = '='

export interface ReplySize {
  lines: number
  /** Null: the state that was sent last. */
  stateBytes: number | null
  bodyBytes: number
}

const REASONS: readonly string[] = [
  'exit',
  'signal',
  'timeout',
  'output-limit',
  'process-limit',
] satisfies TurnResult['reason'][]
/** No turn lasts longer. */
const LONGEST_MINUTES = 24 * 60
const MAX_WINDOW_TOP = 1_000_000_000
/** Of what a command has written. The sandbox stops it at 64 MiB, a while after it got there. */
const MAX_OUTPUT_BYTES = 1024 ** 4

/** Whether each word of an answer is one that the runner may say. An answer with another one is no answer of ours. */
export function isKnownReply(words: readonly string[]): boolean {
  const [kind] = words
  const number = (index: number, most: number): boolean => isNumber(words[index], most)
  if (kind === 'done') {
    const [head, tail, size] = [Number(words[9]), Number(words[10]), Number(words[3])]
    return (
      words.length === 12 &&
      number(1, 255) &&
      REASONS.includes(words[2] ?? '') &&
      number(3, MAX_OUTPUT_BYTES) &&
      number(4, LONGEST_MINUTES * 60_000) &&
      number(5, 1) &&
      number(6, MAX_WINDOW_TOP) &&
      number(7, 1) &&
      head + tail <= size
    )
  }
  if (kind === 'ready') {
    return (
      words.length === 5 &&
      /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(words[1] ?? '') &&
      number(2, MAX_WINDOW_TOP) &&
      number(3, 1)
    )
  }
  if (kind === 'patch') return words.length === 3 && number(2, MAX_WINDOW_TOP)
  if (kind === 'tree') return words.length === 2
  return REFUSALS.includes(kind ?? '')
}

const REFUSALS = ['uncaptured', 'fenced', 'behind', 'conflict', 'full', 'lost', 'unsuitable', 'error']

function isNumber(word: string | undefined, most: number): boolean {
  return /^\d{1,13}$/.test(word ?? '') && Number(word) <= most
}

/** What only the answer to this request may say of itself: the turn and its token. */
export function answersRequest(request: string | Buffer, words: readonly string[]): boolean {
  if (words[0] !== 'done') return true
  const [verb, turn, , token] = request.toString().split(' ', 4)
  return verb === 'turn' && words[11] === `${turn}.${token}`
}

/** How much follows a first line. The numbers are counted from the word after the id. */
export function sizeOfReply(words: readonly string[]): ReplySize {
  const number = (index: number): number => (/^\d{1,12}$/.test(words[index] ?? '') ? Number(words[index]) : Number.NaN)
  if (words[0] === 'ready') return { lines: 1, stateBytes: number(4), bodyBytes: 0 }
  if (words[0] === 'done') {
    const stateBytes = words[8] === SAME_STATE ? null : number(8)
    return { lines: 1, stateBytes, bodyBytes: number(9) + number(10) }
  }
  if (words[0] === 'patch' || words[0] === 'tree') return { lines: 0, stateBytes: 0, bodyBytes: number(1) }
  return { lines: 0, stateBytes: 0, bodyBytes: 0 }
}

export interface ReadyReply {
  startCommit: string
  state: SandboxState
}

export function parseReady(reply: RunnerReply): ReadyReply {
  const [kind, commit = '', top = '', submitted = ''] = reply.words
  if (kind !== 'ready') throw refusal(reply)
  return { startCommit: commit, state: parseState(reply, top, submitted) }
}

/** @param wallMs how long the worker has waited for it; what the runner says of its own clock is read over */
export function parseTurn(reply: RunnerReply, wallMs: number): TurnResult {
  if (reply.words[0] !== 'done') throw refusal(reply)
  const [, code = '', reason = '', size = '', , oom = '', top = '', submitted = '', ...sizes] = reply.words
  const [, headBytes = 0, tailBytes = 0] = sizes.map(Number)
  const stopped = reason === 'timeout' || reason === 'output-limit' || reason === 'process-limit'
  return {
    // The status of a shell that we stopped ourselves says nothing.
    exitCode: stopped ? null : Number(code),
    reason: reason as TurnResult['reason'],
    head: reply.body.subarray(0, headBytes),
    tail: reply.body.subarray(headBytes, headBytes + tailBytes),
    omittedBytes: Number(size) - headBytes - tailBytes,
    outputBytes: Number(size),
    wallMs,
    oomKilled: oom === '1',
    state: parseState(reply, top, submitted),
  }
}

export function parseCapture(reply: RunnerReply): PatchCapture {
  const [kind, , lost = '0', ...rest] = reply.words
  if (kind === 'patch') return { patch: reply.body, lostFiles: Number(lost) }
  if (kind !== 'uncaptured') throw refusal(reply)
  // The agent broke its own repository, or filled it: there is no patch, and that is the agent's doing.
  return { patch: new Uint8Array(), lostFiles: 0, failure: [...reply.words.slice(1, 3), ...rest].join(' ') }
}

/** Hash of the repository's content and of the shell's state: equal in two sandboxes that hold the same world. */
export function parseTree(reply: RunnerReply): string {
  if (reply.words[0] !== 'tree') throw refusal(reply)
  return sha256Hex(reply.body)
}

/** `#umask`, `#directory`, then `export -p`. */
function parseState({ state, openFile }: RunnerReply, top: string, submitted: string): SandboxState {
  const text = state.toString()
  const [umask = '', cwd = ''] = text.split('\n', 2)
  return {
    cwd: cwd.slice(1),
    environment: text.slice(umask.length + cwd.length + 2),
    umask: umask.slice(1),
    openFile: openFile === '' ? null : openFile,
    windowTop: Number(top),
    submitted: submitted === '1',
  }
}

function refusal({ words }: RunnerReply): LonghaulError {
  const [kind, ...rest] = words
  const details = { answer: rest.join(' ') }
  if (kind === 'fenced') {
    return new LonghaulError({ code: 'Sandbox.Fenced', message: 'A newer owner has taken this sandbox over', details })
  }
  if (kind === 'behind') {
    const message = 'The sandbox has not seen the turns that come before this request'
    return new LonghaulError({ code: 'Sandbox.Behind', message, details: { world: rest.join(' ') } })
  }
  if (kind === 'conflict') {
    const message = 'The journal holds another command for this turn'
    return new LonghaulError({ code: 'Sandbox.JournalConflict', message, details })
  }
  if (kind === 'full') {
    const message = 'The disk of the sandbox is full: the turn was not run, for its result could not be kept'
    return new LonghaulError({ code: 'Sandbox.OutOfDisk', message, details })
  }
  if (kind === 'lost') {
    const message = 'The turn was claimed, but what ran it is gone without a result'
    return new LonghaulError({ code: 'Sandbox.Ended', message, details })
  }
  if (kind === 'unsuitable') {
    const message = 'The image lacks what a sandbox needs'
    return new LonghaulError({ code: 'Sandbox.ImageUnsuitable', message, details })
  }
  return new LonghaulError({
    code: 'Sandbox.Ended',
    message: 'The runner gave an unknown answer',
    details: { ...details, kind: kind ?? '' },
  })
}
