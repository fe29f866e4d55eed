/** A real Prometheus with promtool: the machine's, or Debian's package unpacked into the user cache (its installation would start a
 *  service). */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { stackPaths } from '../../src/stack/paths.ts'

export interface Prometheus {
  prometheus: string
  promtool: string
}

/** The programs, or why they are missing. */
export function findPrometheus(): Prometheus | string {
  const onPath = (process.env['PATH'] ?? '')
    .split(':')
    .find((directory) => existsSync(join(directory, 'prometheus')) && existsSync(join(directory, 'promtool')))
  if (onPath !== undefined) return programsIn(onPath)
  const cached = join(stackPaths().cacheDir, 'prometheus-debian')
  if (existsSync(cached)) return programsIn(join(cached, 'usr/bin'))
  try {
    download(cached)
    return programsIn(join(cached, 'usr/bin'))
  } catch (error) {
    return `Prometheus is neither on PATH nor a package of this system: ${(error as Error).message.split('\n')[0]}`
  }
}

function programsIn(directory: string): Prometheus {
  return { prometheus: join(directory, 'prometheus'), promtool: join(directory, 'promtool') }
}

function download(to: string): void {
  mkdirSync(join(to, '..'), { recursive: true })
  const temp = mkdtempSync(`${to}-`)
  const run = (command: string, ...args: string[]): void => {
    execFileSync(command, args, { cwd: temp, stdio: ['ignore', 'ignore', 'pipe'], timeout: 120_000 })
  }
  try {
    run('apt-get', 'download', 'prometheus')
    const [archive = ''] = readdirSync(temp).filter((name) => name.endsWith('.deb'))
    run('dpkg', '-x', archive, 'root')
    renameSync(join(temp, 'root'), to)
  } finally {
    rmSync(temp, { recursive: true, force: true })
  }
}
