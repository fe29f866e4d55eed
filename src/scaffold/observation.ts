/** The texts of a turn: what the policy reads, and the command in what it writes. */
import type { FormatError, SandboxState } from '../contracts/episodes.types.ts'
import type { ScaffoldProfile, TurnResult } from '../contracts/sandbox.types.ts'

/** The parts of a turn's state that the scaffold reads. */
export type PromptState = Pick<SandboxState, 'cwd' | 'openFile'>

export interface PromptLineInput {
  profile: ScaffoldProfile
  state: PromptState
  /** Root of the repository in the sandbox; relative paths start here. */
  repoDir: string
}

/** The last line of every message to the policy. The directory is always absolute; the file follows the profile's path form. */
export function promptLine({ profile, state, repoDir }: PromptLineInput): string {
  const file = state.openFile === null ? 'none' : shownPath({ profile, path: state.openFile, repoDir })
  return `(Current directory: ${state.cwd}, current file: ${file}) bash-$`
}

export interface SystemPromptInput {
  profile: ScaffoldProfile
  /** True only while a base policy collects RFT data. */
  withDemonstration: boolean
}

export function systemPrompt({ profile, withDemonstration }: SystemPromptInput): string {
  if (!withDemonstration || profile.demonstration === null) return profile.systemPrompt
  return `${profile.systemPrompt}\n\n${profile.demonstration}`
}

export interface FirstMessageInput extends PromptLineInput {
  /** The task's problem statement; hints and tests are never shown. */
  statement: string
}

export function firstMessage({ statement, ...rest }: FirstMessageInput): string {
  const text = rest.profile.firstMessage === 'full' ? issueMessage(statement) : statement.trim()
  return withPromptLine(text, rest)
}

/** First message of the full profile: the statement, how Git behaves here, what to check before submitting. */
export function issueMessage(statement: string): string {
  return `The issue to resolve:

${statement.trim()}

${GIT_ADVICE}

${CHECKLIST}

Your shell stands at the root of the repository.`
}

const GIT_ADVICE = `About Git:
- \`git checkout <file>\` or \`git checkout .\` throws your changes away; \`git reset --hard\` does so for everything.
- \`git stash\` puts your changes aside for a comparison, \`git stash pop\` brings them back.
- \`git status\` and \`git diff\` show what you have changed so far.
- Leave your work as plain changes in the working tree: no \`git add\`, no \`git commit\`. \`submit\` takes what \`git diff\` prints at that moment.`

const CHECKLIST = `Before you submit, answer each of these with a sentence of reasoning:
1. Did you see the error of the issue happen?
2. Did you see that it no longer happens with your change?
3. Which edge cases exist, and does the change handle them?
4. Do the existing tests that touch the changed code pass?`

export interface ObservationInput {
  profile: ScaffoldProfile
  repoDir: string
  result: Pick<TurnResult, 'exitCode' | 'reason' | 'head' | 'tail' | 'omittedBytes' | 'oomKilled' | 'state'>
  /** The command's time limit, ms. */
  timeoutMs: number
}

/** The message after a command: output, notices of unusual endings, blank line, prompt line. */
export function observationText({ profile, repoDir, result, timeoutMs }: ObservationInput): string {
  const output = shortenOutput({
    head: result.head,
    tail: result.tail,
    omittedBytes: result.omittedBytes,
    maxChars: profile.observationChars,
  })
  const notices = endNotices(result, timeoutMs)
  const silent = output === '' && notices.length === 0 ? [silenceText(result.exitCode)] : []
  const parts = [...(output === '' ? [] : [output]), ...silent, ...notices]
  return withPromptLine(parts.join('\n'), { profile, repoDir, state: result.state })
}

export interface FormatErrorInput extends PromptLineInput {
  error: FormatError
}

/** Names the fault, restates the rule and shows the form. No command ran, so the state is that of the previous turn. */
export function formatErrorText({ error, ...rest }: FormatErrorInput): string {
  const fault =
    error === 'multiple_commands'
      ? 'Your reply held more than one command block, so none of them was run.'
      : 'Your reply held no command block, so nothing was run.'
  const rule = 'Write exactly one block of this form:\n```command\nls -a\n```'
  return withPromptLine(`${fault} ${rule}`, rest)
}

function endNotices(result: ObservationInput['result'], timeoutMs: number): string[] {
  const notices: string[] = []
  if (result.reason === 'timeout') {
    notices.push(`The command was stopped because it ran longer than ${timeoutMs / 1000} seconds.`)
  }
  if (result.reason === 'output-limit') notices.push('The command was stopped because it wrote too much output.')
  if (result.reason === 'process-limit') {
    notices.push('The command was stopped because it started more processes than the sandbox may hold.')
  }
  if (result.oomKilled) notices.push('A process of the command was killed because memory ran out.')
  return notices
}

function silenceText(exitCode: number | null): string {
  if (exitCode === 0) return 'The command ran and printed nothing.'
  return exitCode === null
    ? 'The command was killed and printed nothing.'
    : `The command failed with exit code ${exitCode} and printed nothing.`
}

function withPromptLine(text: string, input: PromptLineInput): string {
  return `${text}\n\n${promptLine(input)}`
}

function shownPath({ profile, path, repoDir }: { profile: ScaffoldProfile; path: string; repoDir: string }): string {
  if (profile.tools.pathForm === 'absolute') return path
  const root = repoDir.endsWith('/') ? repoDir : `${repoDir}/`
  return path.startsWith(root) ? path.slice(root.length) : path
}

export interface OutputInput {
  /** First bytes of the output. */
  head: Uint8Array
  /** Last bytes; empty if nothing was omitted. */
  tail: Uint8Array
  omittedBytes: number
  /** Maximum of UTF-16 code units of output, without the notice. */
  maxChars: number
}

/**
 * Output as the policy sees it: keeps head and tail, marks the omitted middle. Cuts at character boundaries, replaces invalid bytes
 * by U+FFFD, and removes trailing line breaks, because the prompt line adds a blank line.
 */
export function shortenOutput({ head, tail, omittedBytes, maxChars }: OutputInput): string {
  const first = omittedBytes === 0 ? '' : decodeHead(head)
  const last = omittedBytes === 0 ? decode(join(head, tail)) : decodeTail(tail)
  const whole = trimEnd(first + last)
  if (omittedBytes === 0 && whole.length <= maxChars) return whole

  const headChars = Math.ceil(maxChars / 2)
  const tailChars = Math.floor(maxChars / 2)
  // Line breaks at the end may reach into the head.
  const kept =
    omittedBytes === 0 ? { first: whole, last: whole } : { first: whole.slice(0, first.length), last: trimEnd(last) }
  const headEnd = isInsidePair(kept.first, headChars) ? headChars - 1 : headChars
  const tailStart = Math.max(0, kept.last.length - tailChars)
  const shownHead = kept.first.slice(0, headEnd)
  const shownTail = kept.last.slice(isInsidePair(kept.last, tailStart) ? tailStart + 1 : tailStart)
  const cut = omittedBytes + whole.length - shownHead.length - shownTail.length
  return `${trimEnd(shownHead)}\n${omittedNotice(cut)}\n${shownTail}`
}

/** Returns whether a cut before this code unit would split a character of two units. */
function isInsidePair(text: string, at: number): boolean {
  return (text.codePointAt(at - 1) ?? 0) > 0xff_ff
}

/** "About", because the count adds bytes and characters. */
function omittedNotice(count: number): string {
  return `[... about ${count} characters left out here: write to a file or filter to see less ...]`
}

function decode(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)
}

/** Streaming mode holds back a character that was cut. */
function decodeHead(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes, { stream: true })
}

function decodeTail(bytes: Uint8Array): string {
  let start = 0
  while (start < 3 && isContinuation(bytes[start] ?? 0)) start += 1
  return decode(bytes.subarray(start))
}

function isContinuation(byte: number): boolean {
  return (byte & 0xc0) === 0x80
}

function join(head: Uint8Array, tail: Uint8Array): Uint8Array {
  const all = new Uint8Array(head.length + tail.length)
  all.set(head)
  all.set(tail, head.length)
  return all
}

function trimEnd(text: string): string {
  let end = text.length
  while (text[end - 1] === '\n') end -= 1
  return text.slice(0, end)
}

export type ParsedReply = { command: string; formatError: null } | { command: null; formatError: FormatError }

interface Fence {
  ticks: number
  isCommand: boolean
  lines: string[]
}

/** CommonMark's rule for an opening fence: at most three spaces of indentation, no backtick in the info string. */
const OPENING = /^ {0,3}(`{3,})([^`]*)$/

/**
 * Finds the command of a reply. It must have exactly one closed fence with the info word `command`; fences with other info words are
 * part of the reasoning. A fence that never closes was cut off: its command is incomplete, and nothing runs.
 */
export function parseReply(text: string): ParsedReply {
  const commands: string[] = []
  let open: Fence | null = null

  for (const line of text.replaceAll('\r\n', '\n').split('\n')) {
    if (open === null) {
      open = openFence(line)
      continue
    }
    if (!closes(line, open)) {
      open.lines.push(line)
      continue
    }
    if (open.isCommand) commands.push(open.lines.join('\n'))
    open = null
  }

  if (commands.length > 1) return { command: null, formatError: 'multiple_commands' }
  const [command] = commands
  // A second block, even if cut off, means two commands: running the first would be a guess.
  if (command !== undefined && open?.isCommand === true) return { command: null, formatError: 'multiple_commands' }
  if (command === undefined || command.trim() === '') return { command: null, formatError: 'cannot_extract_command' }
  return { command, formatError: null }
}

function openFence(line: string): Fence | null {
  const match = OPENING.exec(line)
  if (match === null) return null
  return { ticks: (match[1] ?? '').length, isCommand: (match[2] ?? '').trim() === 'command', lines: [] }
}

/** A longer fence may contain shorter ones, so a heredoc can contain Markdown. */
function closes(line: string, fence: Fence): boolean {
  const match = /^ {0,3}(`{3,})[ \t]*$/.exec(line)
  return match !== null && (match[1] ?? '').length >= fence.ticks
}
