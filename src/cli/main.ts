/** The `longhaul` command; `bin/longhaul.mjs` loads this under a fitting Node. */
import { COMPLETE } from './arguments/completion-scripts.ts'
import { runCli } from './run-cli.ts'

// A reader that closes early (`longhaul report x | head`) is no error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0)
  throw error
})

process.exitCode = await runCli({ args: process.argv.slice(2) })
// A shell waits for it, and a server that is silent would keep it alive.
if (process.argv[2] === COMPLETE) process.stdout.write('', () => process.exit())
// What a library forgot to close must not keep a finished command: a supervisor waits for its end to start it again.
setTimeout(() => process.exit(), 5_000).unref()
