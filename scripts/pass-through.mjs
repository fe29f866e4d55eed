// Runs one child in our place: same terminal, same signals, same exit status.
import { spawn } from 'node:child_process'
import { constants } from 'node:os'

export function runInOurPlace({ command, args, env = process.env, cwd = process.cwd() }) {
  const child = spawn(command, args, { stdio: 'inherit', env, cwd })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => {
      // A terminal sends Ctrl-C to the whole foreground group, so the child has it already; a second copy would read as
      // "the user pressed it twice". Other senders, and other signals, address this process alone.
      if (signal === 'SIGINT' && process.stdin.isTTY) return
      child.kill(signal)
    })
  }
  child.on('error', (error) => {
    console.error(`Could not start ${command}: ${error.message}`)
    process.exit(2)
  })
  child.on('exit', (code, signal) => {
    process.exit(signal === null ? (code ?? 2) : 128 + constants.signals[signal])
  })
}
