import { existsSync } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { LonghaulError } from '../../contracts/errors.ts'
import { runCommand } from '../../platform/run-command.ts'
import { LONGEST_STEP_MS, type StepContext } from '../steps.ts'

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
    timeoutMs: LONGEST_STEP_MS,
    // 16 s for everything with a nearby mirror, and up to 2 minutes for another apt's lock.
    silenceMs: 480_000,
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

/** Debian's policy file. Ours contains a marker, so that one left by a killed installation is recognised and removed. */
const MARK_FILE = '/usr/sbin/policy-rc.d'

/**
 * Debian packages start their services when installed, unless `/usr/sbin/policy-rc.d` exits with 101. The script installs such a file while
 * apt runs. It sets an existing file aside and restores it on every exit; after a SIGKILL the next call restores it. Arguments: `fresh` or
 * `stale` package lists, then the packages.
 */
export const INSTALL_SCRIPT = String.raw`
set -u
policy="$LONGHAUL_MARK"
aside="$policy.before-longhaul"
lists="$1"; shift

restore() {
  if grep -qs 'longhaul: no services' "$policy"; then rm -f "$policy"; fi
  if [ -e "$aside" ]; then mv -f "$aside" "$policy"; fi
}
# A TERM waits for the running apt-get (the shell handles it between commands), which also received it.
trap 'restore; exit 143' TERM INT HUP
trap restore EXIT
restore

if [ -e "$policy" ]; then mv -f "$policy" "$aside"; fi
printf '#!/bin/sh\n# longhaul: no services are started during this installation\nexit 101\n' > "$policy.new"
chmod 755 "$policy.new" && mv -f "$policy.new" "$policy"

# Waits for another apt or dpkg (unattended upgrades on a fresh machine) instead of failing at once.
apt() { apt-get -q -y -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 "$@"; }
update() {
  for attempt in 1 2 3 4 5 6; do
    # The lock of the package lists has no waiting option of its own.
    if message=$(apt update 2>&1); then return 0; fi
    case "$message" in *"Could not get lock"*) sleep 10 ;; *) break ;; esac
  done
  echo "$message" >&2
  return 1
}

# Repairs what a killed dpkg left half configured.
dpkg --configure -a >&2 || true
if [ "$lists" = stale ]; then update || exit 1; fi
apt install --no-install-recommends "$@" && exit 0
[ "$lists" = fresh ] || exit 1
update && apt install --no-install-recommends "$@"
`
