import { readFileSync } from 'node:fs'
import { parseArgs, type ParseArgsConfig } from 'node:util'

/**
 * Reads the options of a bench. `--help` prints the comment that its file begins with and ends with 0; what the bench does not know is
 * named, with the lines of usage, and ends with 1: before anything is started.
 */
export function benchArguments<T extends ParseArgsConfig>(config: T): ReturnType<typeof parseArgs<T>> {
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
    return refuseArguments(message)
  }
}

/** Ends a bench that was called wrongly. */
export function refuseArguments(message: string): never {
  const usage = headerOf(process.argv[1] ?? '')
    .split('\n')
    .filter((line) => /^ +(?:npm|node) /.test(line))
  console.error([message, ...usage, '  --help says more'].join('\n'))
  process.exit(1)
}

/** The comment at the beginning of a program. */
function headerOf(program: string): string {
  const text = readFileSync(program, 'utf8')
  const comment = /^\/\*\*([^]*?)\*\//.exec(text)?.[1] ?? ''
  const lines = comment.split('\n').map((line) => line.replace(/^ ?\* ?/, '').trimEnd())
  return lines.join('\n').trim()
}
