import type { FormatError, SandboxState } from '../contracts/episodes.types.ts'
import type { TurnResult, ScaffoldProfile } from '../contracts/sandbox.types.ts'
import { shortenOutput } from './output-text.ts'
import { issueMessage } from './prompts/issue.ts'

/** What the scaffold reads of a turn's state. */
export type PromptState = Pick<SandboxState, 'cwd' | 'openFile'>

export interface PromptLineInput {
  profile: ScaffoldProfile
  state: PromptState
  /** Root of the repository in the sandbox; the relative form starts here. */
  repoDir: string
}

/** Last line of everything the policy reads. The directory is always absolute; the file follows the profile's path form. */
export function promptLine({ profile, state, repoDir }: PromptLineInput): string {
  const file = state.openFile === null ? 'none' : shownPath({ profile, path: state.openFile, repoDir })
  return `(Current directory: ${state.cwd}, current file: ${file}) bash-$`
}

export interface FirstMessageInput extends PromptLineInput {
  /** The task's problem statement; hints and tests are never shown. */
  statement: string
}

export function firstMessage({ statement, ...rest }: FirstMessageInput): string {
  const text = rest.profile.firstMessage === 'full' ? issueMessage(statement) : statement.trim()
  return withPromptLine(text, rest)
}

export interface ObservationInput {
  profile: ScaffoldProfile
  repoDir: string
  result: Pick<TurnResult, 'exitCode' | 'reason' | 'head' | 'tail' | 'omittedBytes' | 'oomKilled' | 'state'>
  /** The limit that the command ran under, ms. */
  timeoutMs: number
}

/** What the policy sees after a command: output, notices of anything unusual, blank line, prompt line. */
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

/** Names the fault, restates the rule, shows the form. Nothing ran, so the state is that of the turn before. */
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
