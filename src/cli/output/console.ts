import { abortOnInterrupt } from '../../platform/interrupts.ts'
import { logText, plainJson, showControls } from '../../domain/hostile-text.ts'
import { EXIT, ExitError } from './exit-codes.ts'
import { isLonghaulError, toLonghaulError } from '../../contracts/errors.ts'
import type { RunOutcome } from '../../client/index.ts'

/**
 * Where commands print. stdout carries the result and nothing else; progress and errors go to stderr. Hidden characters and terminal
 * sequences of texts become visible or vanish here, so no command needs to do that.
 */
export interface Console {
  /** One line, or several, of the result. */
  out(text: string): void
  /** Progress for users. */
  err(text: string): void
  /** One JSON record on a line of stdout. */
  record(value: object): void
  /** A workflow command of the CI system, unchanged on stderr. All other text is escaped, so that it cannot be one. */
  command(line: string): void
  /** Columns of the terminal that shows the result; null if stdout is a pipe or a file, whose lines may have any width. */
  columns?: number | null
  /** Null if stderr cannot be redrawn: a pipe, a log, a CI system. */
  terminal: Terminal | null
}

export interface Terminal {
  write(text: string): void
  columns(): number
  rows(): number
}

export function createConsole({
  stdout = process.stdout,
  stderr = process.stderr,
  env = process.env,
}: {
  stdout?: NodeJS.WritableStream & { isTTY?: boolean; columns?: number }
  stderr?: NodeJS.WritableStream & { isTTY?: boolean; columns?: number; rows?: number }
  env?: NodeJS.ProcessEnv
} = {}): Console {
  const isInteractive = stderr.isTTY === true && env['TERM'] !== 'dumb' && !isCi(env)
  // Names, statements and messages come from tasks, models and servers. On a terminal their sequences would move the cursor, write to the
  // clipboard or hide a line; in the log of a job some lines are commands.
  const safe = isCi(env) ? logText : showControls
  return {
    out: (text) => void stdout.write(ended(safe(text))),
    err: (text) => void stderr.write(ended(safe(text))),
    record: (value) => void stdout.write(`${plainJson(JSON.stringify(value))}\n`),
    // A terminal that nobody gave a size, as in containers, has 0 columns and rows: nothing is known of it then.
    columns: stdout.isTTY === true ? stdout.columns || null : null,
    command: (line) => void stderr.write(ended(line)),
    terminal: isInteractive
      ? {
          write: (text) => void stderr.write(text),
          columns: () => stderr.columns || 100,
          rows: () => stderr.rows || 24,
        }
      : null,
  }
}

export function isCi(env: NodeJS.ProcessEnv = process.env): boolean {
  return !['', '0', 'false'].includes(env['CI'] ?? '')
}

function ended(text: string): string {
  return text.endsWith('\n') ? text : `${text}\n`
}

/** Runs work that Ctrl-C or SIGTERM aborts; the command then ends with 130 after its cleanup. */
export async function untilInterrupted<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { signal, stop } = abortOnInterrupt(() => new ExitError(EXIT.interrupted))
  try {
    return await work(signal)
  } catch (error) {
    throw signal.aborted ? new ExitError(EXIT.interrupted) : error
  } finally {
    stop()
  }
}

/** Prints the code and the message, which says what failed and how to fix it. The stack trace only helps developers of Longhaul. */
export function printError(error: unknown, { console, json }: { console: Console; json: boolean }): void {
  if (error instanceof ExitError) return
  const known = isLonghaulError(error) ? error : toLonghaulError(error)
  if (json) console.record({ event: 'error', code: known.code, message: known.message })
  console.err(`error ${known.code}: ${known.message}`)
  if ((process.env['LONGHAUL_DEBUG'] ?? '') !== '') {
    for (let link: unknown = error; link instanceof Error; link = link.cause) console.err(link.stack ?? String(link))
  } else if (known.code === 'Unexpected') {
    console.err('      set LONGHAUL_DEBUG=1 to see where it came from')
  }
}

export function describeFailure(outcome: Exclude<RunOutcome<unknown>, { status: 'completed' }>): string {
  switch (outcome.status) {
    case 'failed':
      return `error ${outcome.code}: ${outcome.message}`
    case 'cancelled':
      return 'the run was cancelled'
    case 'terminated':
      return `the run was terminated: ${outcome.message}`
    case 'timed-out':
      return `the run took longer than it may: ${outcome.message}`
  }
}
