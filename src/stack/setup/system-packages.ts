import { existsSync } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { delimiter, join } from 'node:path'

import { LonghaulError } from '../../contracts/errors.ts'
import { runCommand } from '../../platform/run-command.ts'
import type { StepContext } from '../steps.ts'
import { INSTALL_SCRIPT, MARK_FILE } from './install-script.ts'

/** Includes the sbin folders, which root's PATH does not always contain. */
export const SYSTEM_PATH = [process.env['PATH'] ?? '', '/usr/local/sbin', '/usr/sbin', '/sbin'].join(delimiter)
/** Package lists older than this are fetched again before an installation, since mirrors drop replaced versions. */
const LISTS_MAX_AGE_MS = 24 * 3_600_000

export type Distribution = 'debian' | 'ubuntu' | 'other'

export async function readDistribution(file = '/etc/os-release'): Promise<Distribution> {
  const text = await readFile(file, 'utf8').catch(() => '')
  const id = /^ID="?([a-z]+)"?$/m.exec(text)?.[1]
  if (id === 'debian' || id === 'ubuntu') return id
  return /^ID_LIKE=.*\bdebian\b/m.test(text) ? 'debian' : 'other'
}

export function findProgram(name: string, path = SYSTEM_PATH): string | null {
  for (const folder of path.split(delimiter)) {
    if (folder !== '' && existsSync(join(folder, name))) return join(folder, name)
  }
  return null
}

export function isRoot(): boolean {
  return process.getuid?.() === 0
}

/** Whether this process can install packages. */
export async function mayInstallPackages(): Promise<boolean> {
  return isRoot() && (await readDistribution()) !== 'other' && findProgram('apt-get') !== null
}

export interface InstallPackagesInput {
  packages: string[]
  context: StepContext
}

/** Installs distribution packages without letting them start services. One call at a time; waits for apt's own locks.
 *  @throws LonghaulError `Stack.SetupFailed` with apt's last lines */
export async function installPackages({ packages, context }: InstallPackagesInput): Promise<void> {
  context.log(`installing ${packages.join(', ')} with apt-get (without starting services)`)
  const result = await runCommand({
    command: 'sh',
    args: ['-c', INSTALL_SCRIPT, 'install', (await listsAreFresh()) ? 'fresh' : 'stale', ...packages],
    env: { ...process.env, PATH: SYSTEM_PATH, DEBIAN_FRONTEND: 'noninteractive', LONGHAUL_MARK: MARK_FILE },
    // 8 minutes: 16 s with a nearby mirror, and up to 2 minutes for another apt's lock.
    timeoutMs: 480_000,
    // An interrupted dpkg must finish its current package; the script then restores what it changed.
    graceMs: 60_000,
    signal: context.signal,
    onLine: context.saw,
  })
  if (result.exitCode === 0) return
  throw new LonghaulError({
    code: 'Stack.SetupFailed',
    message: `apt-get could not install ${packages.join(', ')}:\n${result.tail}\nInstall them by hand (apt-get install ${packages.join(' ')}) and run this again.`,
  })
}

async function listsAreFresh(): Promise<boolean> {
  const lists = '/var/lib/apt/lists/partial'
  const changed = await stat(lists).catch(() => null)
  return changed !== null && Date.now() - changed.mtimeMs < LISTS_MAX_AGE_MS
}
