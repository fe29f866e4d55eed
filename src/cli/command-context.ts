import type { Console } from './output/console.ts'
import type { ExitCode } from './output/exit-codes.ts'

/** What every command gets beside its own options. */
export interface CommandContext {
  console: Console
  /** Tells the process how to end; a command that says nothing ends with 0. */
  exit(code: ExitCode): void
}
