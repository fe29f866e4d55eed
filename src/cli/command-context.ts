import type { Console } from './output/console.ts'
import type { ExitCode } from './output/exit-codes.ts'

/** What every command gets besides its own options. */
export interface CommandContext {
  console: Console
  /** Sets the exit code; a command that never calls it ends with 0. */
  exit(code: ExitCode): void
}
