/** Builds programs from pinned Go modules of `infra`, once per state of their lock files. */
import { mkdir, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { withDirectoryLock } from '../../platform/directory-lock.ts'
import { exists } from '../../platform/files.ts'
import { sha256OfParts } from '../../platform/hash.ts'
import { requireCommand, runCommand } from '../../platform/run-command.ts'
import { LONGEST_STEP_MS, type StepContext } from '../steps.ts'
import { findProgram } from './system-packages.ts'

export type GoToolchain =
  | { usable: true; path: string; version: string }
  | { usable: false; wanted: string; reason: string }

/** Key of a module's cache entry: a hash of everything that determines its programs. Raise `revision` when build flags change a program. */
export async function moduleKey({ module, revision }: { module: string; revision: string }): Promise<string> {
  const [goMod, goSum] = await Promise.all([readFile(join(module, 'go.mod')), readFile(join(module, 'go.sum'))])
  return sha256OfParts(goMod, goSum, revision, process.platform, process.arch).slice(0, 12)
}

/** Finds Go on PATH or where distributions install it; null if there is none. */
export async function goProgram(): Promise<string | null> {
  return findProgram('go') ?? (await firstExisting(['/usr/local/go/bin/go', '/usr/lib/go/bin/go']))
}

export async function findGo({ module, context }: { module: string; context: StepContext }): Promise<GoToolchain> {
  const wanted = /^go (\S+)$/m.exec(await readFile(join(module, 'go.mod'), 'utf8'))?.[1] ?? '1.26.4'
  const path = await goProgram()
  if (path === null) return { usable: false, wanted, reason: 'there is no Go to build it with' }
  // Run inside the module: an older Go that may download toolchains reports the one that it would use.
  const { exitCode, stdout, tail } = await runCommand({
    command: path,
    args: ['env', 'GOVERSION'],
    cwd: module,
    env: goEnvironment(),
    timeoutMs: 120_000,
    signal: context.signal,
  })
  const version = stdout.trim()
  if (exitCode !== 0) return { usable: false, wanted, reason: `${path} cannot build it (${tail.split('\n').at(-1)})` }
  if (isOlder(version, wanted)) return { usable: false, wanted, reason: `${path} is ${version}` }
  return { usable: true, path, version }
}

interface BuildGoProgramsInput {
  /** Name in messages, such as `the Temporal CLI`. */
  what: string
  go: string
  module: string
  /** Import paths of the programs. Several programs go into one folder. */
  commands: readonly string[]
  /** `-X` assignments. @default none */
  linkerFlags?: string
  /** More flags of `go build`. @default none */
  flags?: readonly string[]
  /** Variables in addition to this process's. @default none */
  env?: Record<string, string>
  /** For builds that must not slow down other processes. @default 0 */
  niceness?: number
  /** Longest time in which the compiler reports no package; four minutes for a whole build were measured on two idle cores. @default 20
   *  minutes */
  silenceMs?: number
  /** Path of the binary or the folder; its parent directory exists. */
  target: string
  /** Adds further files to the folder before it is renamed to `target`. @default nothing */
  complete?: (folder: string) => Promise<void>
  context: StepContext
}

/** Creates the target atomically and complete. @throws LonghaulError `Stack.SetupFailed` */
export async function buildGoPrograms(input: BuildGoProgramsInput): Promise<void> {
  const { what, go, module, commands, linkerFlags = '', flags = [], env = {}, niceness = 0 } = input
  const { silenceMs = 20 * 60_000, target, complete, context } = input
  const { signal } = context
  const onWait = (): void => context.saw?.(`another process builds ${what}`)
  const lock = { path: `${target}.lock`, timeoutMs: LONGEST_STEP_MS, signal, onWait }
  await withDirectoryLock(lock, async () => {
    if (await exists(target)) return
    const temporary = `${target}.new`
    try {
      // Left by a killed build.
      await rm(temporary, { recursive: true, force: true })
      if (commands.length > 1) await mkdir(temporary)
      await requireCommand({
        what: `Building ${what}`,
        command: niceness === 0 ? go : 'nice',
        args: [
          ...(niceness === 0 ? [] : ['-n', String(niceness), go]),
          'build',
          // Prints each package as it is compiled, for progress displays.
          '-v',
          '-mod=readonly',
          '-buildvcs=false',
          ...flags,
          '-ldflags',
          `-s -w ${linkerFlags}`.trim(),
          '-o',
          commands.length > 1 ? `${temporary}/` : temporary,
          ...commands,
        ],
        cwd: module,
        env: { ...goEnvironment(), ...env },
        timeoutMs: LONGEST_STEP_MS,
        silenceMs,
        signal,
        onLine: context.saw,
      })
      await complete?.(temporary)
      await rename(temporary, target)
    } finally {
      await rm(temporary, { recursive: true, force: true })
    }
  })
}

/** A user's workspace file or GOFLAGS must not affect our module. */
function goEnvironment(): NodeJS.ProcessEnv {
  return { ...process.env, GOWORK: 'off', GOFLAGS: '' }
}

export function isOlder(version: string, wanted: string): boolean {
  const numbers = (text: string): number[] => (text.match(/\d+/g) ?? []).slice(0, 3).map(Number)
  const [have, need] = [numbers(version), numbers(wanted)]
  for (let index = 0; index < 3; index += 1) {
    const difference = (have[index] ?? 0) - (need[index] ?? 0)
    if (difference !== 0) return difference < 0
  }
  return false
}

async function firstExisting(paths: string[]): Promise<string | null> {
  for (const path of paths) if (await exists(path)) return path
  return null
}
