import { readFileSync } from 'node:fs'
import { parseArgs, type ParseArgsConfig } from 'node:util'

/**
 * Reads the options of a bench or of the test runner before anything is started. `--help` prints the comment at the start of the
 * program's file and exits with 0; an unknown option is named, with the usage lines.
 * @param exitCode of a wrong call
 */
export function benchArguments<T extends ParseArgsConfig>(config: T, exitCode = 1): ReturnType<typeof parseArgs<T>> {
  const words = process.argv.slice(2)
  const asked = words.includes('--') ? words.slice(0, words.indexOf('--')) : words
  if (asked.includes('--help') || asked.includes('-h')) {
    console.log(headerOf(process.argv[1] ?? ''))
    process.exit(0)
  }
  try {
    return parseArgs(config)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code?.startsWith('ERR_PARSE_ARGS_') !== true) throw error
    return refuseArguments(message, exitCode)
  }
}

/** Exits after a wrong call, with the message and the usage. */
export function refuseArguments(message: string, exitCode = 1): never {
  const usage = headerOf(process.argv[1] ?? '')
    .split('\n')
    .filter((line) => /^ +(?:npm|node) /.test(line))
  console.error([message, ...usage, '  --help says more'].join('\n'))
  process.exit(exitCode)
}

/** The comment at the start of a program. */
function headerOf(program: string): string {
  const text = readFileSync(program, 'utf8')
  const comment = /^\/\*\*([^]*?)\*\//.exec(text)?.[1] ?? ''
  const lines = comment.split('\n').map((line) => line.replace(/^ ?\* ?/, '').trimEnd())
  return lines.join('\n').trim()
}
