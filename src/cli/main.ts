/** The `longhaul` command; `bin/longhaul.mjs` loads this under a suitable Node. */
import { fstatSync, writeSync } from 'node:fs'
import { COMPLETE } from './arguments/completion-scripts.ts'
import { EXIT } from './output/exit-codes.ts'
import { runCli } from './run-cli.ts'

/** A command whose reader has gone and that does not end by itself, such as one that follows a run, is ended after this time. */
const READER_GONE_MS = 1_000

for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') {
      // A reader that closes early (`longhaul report x | head`) is not an error, and the exit code still says what was found: a pipeline
      // may check it. Progress that nobody reads any more is no reason to end either.
      if (stream === process.stdout || isOneFile(1, 2)) {
        setTimeout(() => process.exit(process.exitCode ?? EXIT.interrupted), READER_GONE_MS).unref()
      }
      return
    }
    // Written without the streams, one of which has just failed. If the disk of stdout is full, stderr may still work.
    if (stream === process.stdout)
      writeSync(2, `error: the output cannot be written (${error.code ?? error.message})\n`)
    process.exit(EXIT.infra)
  })
}

/** As after `2>&1`. */
function isOneFile(one: number, other: number): boolean {
  const [left, right] = [fstatSync(one), fstatSync(other)]
  return left.dev === right.dev && left.ino === right.ino
}

// The client of gRPC names an IP address as the name of a server, which is for its authors to change.
const warn = process.emitWarning.bind(process)
process.emitWarning = (warning: string | Error, ...rest: unknown[]): void => {
  if (!rest.includes('DEP0123')) (warn as (...given: unknown[]) => void)(warning, ...rest)
}

process.exitCode = await runCli({ args: process.argv.slice(2) })
// A shell waits for the completions, and a pending request to a silent server would keep the process alive.
if (process.argv[2] === COMPLETE) process.stdout.write('', () => process.exit())
// What a library left open must not keep a finished command alive: a supervisor restarts it only after its exit.
setTimeout(() => process.exit(), 5_000).unref()
