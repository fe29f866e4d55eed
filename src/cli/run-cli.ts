import { type Command, CommanderError } from 'commander'
import { type Console, createConsole, printError } from './output/console.ts'
import { COMPLETE } from './arguments/completion-scripts.ts'
import { misspeltVariables } from './arguments/misspelt-variables.ts'
import { combineExitCodes, EXIT, type ExitCode, exitCodeOfError } from './output/exit-codes.ts'
import { createSignOfLife } from './output/sign-of-life.ts'
import { createProgram } from './program.ts'
import { type Clock, systemClock } from '../platform/clock.ts'

/** Runs one command line. @returns the exit code; never rejects, never ends the process itself */
export async function runCli({
  args,
  console: given = createConsole(),
  clock = systemClock,
}: {
  args: string[]
  console?: Console
  clock?: Clock
}): Promise<ExitCode> {
  const codes: ExitCode[] = []
  const sign = createSignOfLife({ console: given, clock })
  const { console } = sign
  const program = await createProgram({ console, exit: (code) => codes.push(code) }, args)
  sign.watch(program)
  const onOneLine = quoter(args)
  catchExits(program, console, onOneLine)
  // A shell that completes a word shows nothing else.
  if (args[0] !== COMPLETE) {
    for (const { name, near } of misspeltVariables(process.env))
      console.err(
        `warning: ${name} in the environment is not a variable of Longhaul and is ignored; did you mean ${near}?`,
      )
  }
  try {
    await program.parseAsync(namedCommand(program, args), { from: 'user' })
  } catch (error) {
    if (error instanceof CommanderError) {
      const isMistake = error.exitCode !== 0
      // Commander has already printed the message on stderr; a program that reads records gets it too.
      if (isMistake && args.includes('--json')) {
        console.record({
          event: 'error',
          code: 'Config.Invalid',
          message: onOneLine(error.message.replace(/^error: /, '')),
        })
      }
      codes.push(isMistake ? EXIT.usage : EXIT.ok)
    } else {
      printError(error, { console, json: args.includes('--json') })
      codes.push(exitCodeOfError(error))
    }
  } finally {
    sign.stop()
  }
  return combineExitCodes(codes)
}

/**
 * Commander handles a request for help before it checks the words, and its own `help` takes one word: `help run nope` and `nope --help`
 * would show another command's help without an error. So `help` becomes the option `--help` after all words, and everything after an
 * unknown word is dropped: Commander then refuses that word and names the nearest ones.
 */
function namedCommand(program: Command, args: readonly string[]): string[] {
  const words = [...args]
  let command = program
  for (let at = 0; at < words.length && command.commands.length > 0; at++) {
    const word = words[at] ?? ''
    if (word.startsWith('-')) return words
    if (word === 'help') {
      words.splice(at, 1)
      if (!words.includes('--help')) words.push('--help')
      at--
      continue
    }
    const named = command.commands.find((other) => other.name() === word || other.aliases().includes(word))
    if (named === undefined) return words.slice(0, at + 1)
    command = named
  }
  return words
}

/** Keeps Commander from ending the process; subcommands do not inherit the override. */
function catchExits(command: Command, console: Console, onOneLine: (message: string) => string): void {
  command.exitOverride().configureOutput({
    writeOut: (text) => console.out(text),
    writeErr: (text) => console.err(text),
    outputError: (text, write) => write(onOneLine(text)),
  })
  for (const child of command.commands) catchExits(child, console, onOneLine)
}

/** Commander repeats a wrong value as it is, also a page of it or one that steers the terminal. */
function quoter(args: readonly string[]): (message: string) => string {
  const values = args.flatMap((arg) => [arg, arg.slice(arg.indexOf('=') + 1)])
  const unfit = values.filter((value) => value.length > MOST_REPEATED || /\p{Cc}/u.test(value))
  return (message) =>
    unfit.reduce((text, value) => {
      const start = value.length > MOST_REPEATED ? `${value.slice(0, MOST_REPEATED)}…` : value
      return text.replaceAll(value, () => JSON.stringify(start).slice(1, -1))
    }, message)
}

/** Characters of a wrong value that are repeated. */
const MOST_REPEATED = 120
