/** The `longhaul` command; `bin/longhaul.mjs` loads this under a fitting Node. */
import { runCli } from './run-cli.ts'

// A reader that closes early (`longhaul report x | head`) is no error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0)
  throw error
})

process.exitCode = await runCli({ args: process.argv.slice(2) })
