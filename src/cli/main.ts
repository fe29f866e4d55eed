/** The `longhaul` command; `bin/longhaul.mjs` loads this under a fitting Node. */
import { writeSync } from 'node:fs'
import { COMPLETE } from './arguments/completion-scripts.ts'
import { EXIT } from './output/exit-codes.ts'
import { runCli } from './run-cli.ts'

for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    // A reader that closes early (`longhaul report x | head`) is no error.
    if (error.code === 'EPIPE') process.exit(0)
    // Not by the stream, which may be this one; a disk without room still has one for the other.
    if (stream === process.stdout)
      writeSync(2, `error: the output cannot be written (${error.code ?? error.message})\n`)
    process.exit(EXIT.infra)
  })
}

process.exitCode = await runCli({ args: process.argv.slice(2) })
// A shell waits for it, and a server that is silent would keep it alive.
if (process.argv[2] === COMPLETE) process.stdout.write('', () => process.exit())
// What a library forgot to close must not keep a finished command: a supervisor waits for its end to start it again.
setTimeout(() => process.exit(), 5_000).unref()
