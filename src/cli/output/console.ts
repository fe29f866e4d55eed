import { EXIT, ExitError } from './exit-codes.ts'

/** Where commands print. stdout carries the result and nothing else; progress and errors go to stderr. */
export interface Console {
  /** One line, or several, of the result. */
  out(text: string): void
  /** Progress for people. */
  err(text: string): void
  /** One JSON record on a line of stdout. */
  record(value: object): void
  /** Whether stderr may be redrawn and coloured. */
  isInteractive: boolean
  hasColor: boolean
}

export function createConsole({
  stdout = process.stdout,
  stderr = process.stderr,
  env = process.env,
}: {
  stdout?: NodeJS.WritableStream
  stderr?: NodeJS.WritableStream & { isTTY?: boolean }
  env?: NodeJS.ProcessEnv
} = {}): Console {
  const isInteractive = stderr.isTTY === true && env['TERM'] !== 'dumb' && !isCi(env)
  return {
    out: (text) => void stdout.write(ended(text)),
    err: (text) => void stderr.write(ended(text)),
    record: (value) => void stdout.write(`${JSON.stringify(value)}\n`),
    isInteractive,
    hasColor: isInteractive && (env['NO_COLOR'] ?? '') === '',
  }
}

export function isCi(env: NodeJS.ProcessEnv = process.env): boolean {
  return !['', '0', 'false'].includes(env['CI'] ?? '')
}

function ended(text: string): string {
  return text.endsWith('\n') ? text : `${text}\n`
}

/** Runs work that can be aborted; Ctrl-C or SIGTERM aborts it, and the command ends with 130 once it has tidied up. */
export async function untilInterrupted<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const abort = new AbortController()
  const interrupted = (): void => abort.abort(new ExitError(EXIT.interrupted))
  const signals = ['SIGINT', 'SIGTERM'] as const
  for (const signal of signals) process.once(signal, interrupted)
  try {
    return await work(abort.signal)
  } catch (error) {
    throw abort.signal.aborted ? new ExitError(EXIT.interrupted) : error
  } finally {
    for (const signal of signals) process.off(signal, interrupted)
  }
}
