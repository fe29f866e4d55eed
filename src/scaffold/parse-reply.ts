import type { FormatError } from '../contracts/episodes.types.ts'

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
  const info = (match[2] ?? '').trim().split(/\s+/)
  return { ticks: (match[1] ?? '').length, isCommand: info.length === 1 && info[0] === 'command', lines: [] }
}

/** A longer fence may contain shorter ones, so a heredoc can contain Markdown. */
function closes(line: string, fence: Fence): boolean {
  const match = /^ {0,3}(`{3,})[ \t]*$/.exec(line)
  return match !== null && (match[1] ?? '').length >= fence.ticks
}
