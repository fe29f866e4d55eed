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

/** Mount point of the runner and its scripts in every sandbox. The mount is read-only, and no process inside can cover or rename it. */
export const RUNNER_FOLDER = '/.lh-runner'

/** Command of a sandbox's first process. It exits, and ends the sandbox, after `rounds` rounds of `seconds` seconds without a request. */
export function runnerCommand(seconds: string, rounds: string): string[] {
  return [`${RUNNER_FOLDER}/runner`, 'init', seconds, rounds]
}

/**
 * Defines every line that a worker and a sandbox's runner exchange, as field names in order. The counterpart is `infra/runner`:
 * `answer_turn` and its neighbours read requests; `reply_record`, `tell_ready` and `tell_with_body` write answers.
 */
const REQUESTS = {
  turn: ['turn', 'fence', 'token', 'timeoutMs', 'maxOutputBytes', 'hash', 'after', 'command'],
  capture: ['mode', 'startCommit', 'maxBytes', 'after', 'cpuMs'],
  tree: ['startCommit', 'after', 'cpuMs'],
  /** The verb alone asks whether the sandbox is ready; with a fence alone it also refuses lower ones from then on. */
  init: ['repoDir', 'settings', 'environment'],
} as const

const REPLIES = {
  ready: ['startCommit', 'windowTop', 'submitted', 'stateBytes'],
  done: [
    'exitCode',
    'reason',
    'outputBytes',
    'wallMs',
    'oomKilled',
    'windowTop',
    'submitted',
    'stateBytes',
    'headBytes',
    'tailBytes',
    'turnAndToken',
  ],
  patch: ['bodyBytes', 'lostFiles'],
  tree: ['bodyBytes'],
} as const

/** Answers of one word and free text. They mean that the request was not carried out. */
const REFUSALS = ['uncaptured', 'fenced', 'behind', 'conflict', 'full', 'lost', 'unsuitable', 'error']

type Verb = keyof typeof REQUESTS
type Kind = keyof typeof REPLIES
type FieldsOf<Names extends readonly string[]> = Record<Names[number], string>

function requestLine<V extends Verb>(verb: V, fields: Record<(typeof REQUESTS)[V][number], string | number>): string {
  const named: Record<string, string | number> = fields
  return `${[verb, ...REQUESTS[verb].map((name) => named[name])].join(' ')}\n`
}

/** Returns null for an answer of another kind. */
function fieldsOf<K extends Kind>(kind: K, words: readonly string[]): FieldsOf<(typeof REPLIES)[K]> | null {
  if (words[0] !== kind) return null
  return Object.fromEntries(REPLIES[kind].map((name, index) => [name, words[index + 1] ?? ''])) as FieldsOf<
    (typeof REPLIES)[K]
  >
}

function isKind(word: string | undefined): word is Kind {
  return word !== undefined && Object.hasOwn(REPLIES, word)
}

/** A shell cannot hold a NUL byte. The turn runs this command instead, so that it is journaled and answered like any other turn. */
const NUL_REFUSAL = "echo 'The command holds a NUL byte and was not run.' >&2; false"

export function encodeTurn(request: TurnRequest): string {
  const { turn, fence, token, timeoutMs, maxOutputBytes, after, command } = request
  const text = command.includes('\0') ? NUL_REFUSAL : command
  return requestLine('turn', {
    turn,
    fence,
    token,
    timeoutMs: Math.ceil(timeoutMs),
    maxOutputBytes,
    hash: sha256Hex(command),
    after: encodeMark(after),
    command: escapeBytes(Buffer.from(text)),
  })
}

export interface EncodeCaptureInput extends CaptureRequest {
  startCommit: string
  maxBytes: number
  /** What Git may compute, in all of its processes; a pipe or a filter that it waits for is not part of that. */
  cpuMs: number
}

export function encodeCapture({ mode, startCommit, maxBytes, after, cpuMs }: EncodeCaptureInput): string {
  return requestLine('capture', { mode, startCommit, maxBytes, after: encodeMark(after), cpuMs })
}

export function encodeTree({ startCommit, after, cpuMs }: Omit<EncodeCaptureInput, 'mode' | 'maxBytes'>): string {
  return requestLine('tree', { startCommit, after: encodeMark(after), cpuMs })
}

function encodeMark(mark: TurnMark | null): string {
  return mark === null ? '-' : `${mark.turn}.${mark.token}`
}

/** With settings, initialises a sandbox before its first turn; with null, only asks whether it is initialised. */
export function encodeInit(settings: SandboxSettings | null): string {
  if (settings === null) return 'init\n'
  const escaped = (text: string): string => escapeBytes(Buffer.from(text))
  return requestLine('init', {
    repoDir: escaped(settings.repoDir),
    settings: escaped(settingsText(settings)),
    environment: escaped(environmentText(settings)),
  })
}

/** A runner of an earlier version answers, and keeps its fence until the next turn. */
export function encodeTakeOver(fence: number): string {
  return `init ${fence}\n`
}

/** Keeps printable ASCII except `\` and `@`, and writes every other byte as `\0ooo`, which `printf %b` of any shell restores. */
export function escapeBytes(bytes: Buffer): string {
  let text = ''
  for (const byte of bytes) {
    const plain = byte > 0x20 && byte < 0x7f && byte !== 0x5c && byte !== 0x40
    text += plain ? String.fromCharCode(byte) : `\\0${byte.toString(8).padStart(3, '0')}`
  }
  return text
}

/** One answer of the runner: the words of its first line, and the payload. */
export interface RunnerReply {
  /** Id of the request that it answers. */
  id: string
  words: string[]
  openFile: string
  /** Complete even if the runner omitted it because this connection already had it; empty if the answer has no state. */
  state: Buffer
  body: Buffer
}

/** Limit for a line of an answer: longer than any path that git quotes byte by byte. */
export const MAX_LINE_BYTES = 32 * 1024
/** Limit for the shell state that one turn passes to the next. If the state would be larger, the sandbox keeps the previous one. */
export const MAX_STATE_BYTES = 64 * 1024
/** The sandbox sends a hash in place of a longer listing. The state follows in both cases. */
export const MAX_TREE_BYTES = 8 * 1024 * 1024 + MAX_STATE_BYTES

/** Stands in place of the state's size if the state equals that of the previous answer. */
const SAME_STATE = '='

export interface ReplySize {
  lines: number
  /** Null if the state is the one that was sent last. */
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
/** Upper bound on the duration of a turn. */
const LONGEST_MINUTES = 24 * 60
const MAX_WINDOW_TOP = 1_000_000_000
/** Upper bound on the stated output size. The sandbox stops a command soon after it has written 64 MiB. */
const MAX_OUTPUT_BYTES = 1024 ** 4

const upTo =
  (most: number) =>
  (word: string): boolean =>
    /^\d{1,13}$/.test(word) && Number(word) <= most

/** Valid values of fields, by field name. `sizeOfReply` validates sizes. */
const BOUNDS: Readonly<Partial<Record<(typeof REPLIES)[Kind][number], (word: string) => boolean>>> = {
  startCommit: (word) => /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(word),
  exitCode: upTo(255),
  reason: (word) => REASONS.includes(word),
  outputBytes: upTo(MAX_OUTPUT_BYTES),
  wallMs: upTo(LONGEST_MINUTES * 60_000),
  oomKilled: upTo(1),
  windowTop: upTo(MAX_WINDOW_TOP),
  submitted: upTo(1),
  lostFiles: upTo(MAX_WINDOW_TOP),
}

/** Returns whether every word of an answer is valid. The runner never sends an answer with an invalid word. */
export function isKnownReply(words: readonly string[]): boolean {
  const [kind, ...values] = words
  if (!isKind(kind)) return REFUSALS.includes(kind ?? '')
  const names = REPLIES[kind]
  if (values.length !== names.length) return false
  if (!names.every((name, index) => BOUNDS[name]?.(values[index] ?? '') ?? true)) return false
  const done = fieldsOf('done', words)
  return done === null || Number(done.headBytes) + Number(done.tailBytes) <= Number(done.outputBytes)
}

/** Matches an answer to its request by the turn and the request's token. */
export function answersRequest(request: string | Buffer, words: readonly string[]): boolean {
  const done = fieldsOf('done', words)
  if (done === null) return true
  const [verb, ...fields] = request.toString().split(' ', 1 + REQUESTS.turn.length)
  const field = (name: (typeof REQUESTS)['turn'][number]): string => fields[REQUESTS.turn.indexOf(name)] ?? ''
  return verb === 'turn' && done.turnAndToken === `${field('turn')}.${field('token')}`
}

/** Returns how many bytes follow a first line. */
export function sizeOfReply(words: readonly string[]): ReplySize {
  const [kind] = words
  const fields: Partial<Record<string, string>> = isKind(kind) ? (fieldsOf(kind, words) ?? {}) : {}
  const size = (name: string): number => {
    const word = fields[name]
    if (word === undefined) return 0
    return /^\d{1,12}$/.test(word) ? Number(word) : Number.NaN
  }
  return {
    lines: fields['stateBytes'] === undefined ? 0 : 1,
    stateBytes: kind === 'done' && fields['stateBytes'] === SAME_STATE ? null : size('stateBytes'),
    bodyBytes: size('bodyBytes') + size('headBytes') + size('tailBytes'),
  }
}

export interface ReadyReply {
  startCommit: string
  state: SandboxState
}

export function parseReady(reply: RunnerReply): ReadyReply {
  const fields = fieldsOf('ready', reply.words)
  if (fields === null) throw refusal(reply)
  return { startCommit: fields.startCommit, state: parseState(reply, fields) }
}

/** @param wallMs how long the worker waited for the answer; the runner's own clock is not trusted */
export function parseTurn(reply: RunnerReply, wallMs: number): TurnResult {
  const fields = fieldsOf('done', reply.words)
  if (fields === null) throw refusal(reply)
  const { reason, oomKilled } = fields
  const [headBytes, tailBytes, outputBytes] = [fields.headBytes, fields.tailBytes, fields.outputBytes].map(Number) as [
    number,
    number,
    number,
  ]
  const stopped = reason === 'timeout' || reason === 'output-limit' || reason === 'process-limit'
  return {
    // The exit status of a shell that the runner itself stopped is meaningless.
    exitCode: stopped ? null : Number(fields.exitCode),
    reason: reason as TurnResult['reason'],
    head: reply.body.subarray(0, headBytes),
    tail: reply.body.subarray(headBytes, headBytes + tailBytes),
    omittedBytes: outputBytes - headBytes - tailBytes,
    outputBytes,
    wallMs,
    oomKilled: oomKilled === '1',
    state: parseState(reply, fields),
  }
}

export function parseCapture(reply: RunnerReply): PatchCapture {
  const patch = fieldsOf('patch', reply.words)
  if (patch !== null) return { patch: reply.body, lostFiles: Number(patch.lostFiles) }
  const [kind, ...reason] = reply.words
  if (kind !== 'uncaptured') throw refusal(reply)
  // The agent broke or filled its own repository. There is no patch, and the agent is responsible.
  return { patch: new Uint8Array(), lostFiles: 0, failure: reason.join(' ') }
}

/** Returns the hash of the repository's content and the shell's state. Two sandboxes with equal hashes are in the same state. */
export function parseTree(reply: RunnerReply): string {
  if (fieldsOf('tree', reply.words) === null) throw refusal(reply)
  return sha256Hex(reply.body)
}

/** Parses `#umask`, `#directory`, then `export -p`. */
function parseState(
  { state, openFile }: RunnerReply,
  { windowTop, submitted }: { windowTop: string; submitted: string },
): SandboxState {
  const text = state.toString()
  const [umask = '', cwd = ''] = text.split('\n', 2)
  return {
    cwd: cwd.slice(1),
    environment: text.slice(umask.length + cwd.length + 2),
    umask: umask.slice(1),
    openFile: openFile === '' ? null : openFile,
    windowTop: Number(windowTop),
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
    const message = 'The sandbox has not run the turns before this request'
    return new LonghaulError({ code: 'Sandbox.Behind', message, details: { world: rest.join(' ') } })
  }
  if (kind === 'conflict') {
    const message = 'The journal holds another command for this turn'
    return new LonghaulError({ code: 'Sandbox.JournalConflict', message, details })
  }
  if (kind === 'full') {
    const message = 'The disk of the sandbox is full: the turn was not run, because its result could not be stored'
    return new LonghaulError({ code: 'Sandbox.OutOfDisk', message, details })
  }
  if (kind === 'lost') {
    const message = 'The turn was started, but its process is gone and left no result'
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
