import { runCommand } from '../run-command.ts'

export interface TemporalCli {
  path: string
  /** Of the server inside, as `1.31.2`; a database file belongs to one of them. */
  serverVersion: string
}

/** Null when the file does not run or is something else. */
export async function inspectTemporalCli(path: string): Promise<TemporalCli | null> {
  const { exitCode, stdout } = await runCommand({ command: path, args: ['--version'], timeoutMs: 20_000 })
  const serverVersion = /Server (\d+\.\d+\.\d+)/.exec(stdout)?.[1]
  return exitCode === 0 && serverVersion !== undefined ? { path, serverVersion } : null
}
