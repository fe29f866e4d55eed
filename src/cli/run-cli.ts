import { type Command, CommanderError } from 'commander'
import { type Console, createConsole } from './console.ts'
import { combineExitCodes, EXIT, type ExitCode, exitCodeOfError } from './exit-codes.ts'
import { printError } from './print-error.ts'
import { createProgram } from './program.ts'

/** Runs one command line. @returns the exit code; never rejects, never ends the process itself */
export async function runCli({
  args,
  console = createConsole(),
}: {
  args: string[]
  console?: Console
}): Promise<ExitCode> {
  const codes: ExitCode[] = []
  const program = createProgram({ console, exit: (code) => codes.push(code) })
  catchExits(program, console)
  try {
    await program.parseAsync(args, { from: 'user' })
  } catch (error) {
    if (error instanceof CommanderError) codes.push(error.exitCode === 0 ? EXIT.ok : EXIT.usage)
    else {
      printError(error, { console, json: args.includes('--json') })
      codes.push(exitCodeOfError(error))
    }
  }
  return combineExitCodes(codes)
}

/** Commander would end the process by itself; subcommands do not inherit the override. */
function catchExits(command: Command, console: Console): void {
  command.exitOverride().configureOutput({
    writeOut: (text) => console.out(text),
    writeErr: (text) => console.err(text),
  })
  for (const child of command.commands) catchExits(child, console)
}
