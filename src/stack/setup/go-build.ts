/** Programs that are built from a pinned Go module of `infra`, once for each state of its lock files. */
import { readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { withDirectoryLock } from '../../platform/directory-lock.ts'
import { exists } from '../../platform/files.ts'
import { sha256OfParts } from '../../platform/hash.ts'
import { requireCommand, runCommand } from '../../platform/run-command.ts'
import type { StepContext } from '../steps.ts'
import { findProgram } from './system-packages.ts'

export type GoToolchain =
  | { usable: true; path: string; version: string }
  | { usable: false; wanted: string; reason: string }

/** Names the cache entry of a module: its programs are a function of these. `revision` is raised by hand when flags change a program. */
export async function moduleKey({ module, revision }: { module: string; revision: string }): Promise<string> {
  const [goMod, goSum] = await Promise.all([readFile(join(module, 'go.mod')), readFile(join(module, 'go.sum'))])
  return sha256OfParts(goMod, goSum, revision, process.platform, process.arch).slice(0, 12)
}

export async function findGo({ module, context }: { module: string; context: StepContext }): Promise<GoToolchain> {
  const wanted = /^go (\S+)$/m.exec(await readFile(join(module, 'go.mod'), 'utf8'))?.[1] ?? '1.26.4'
  const path = findProgram('go') ?? (await firstExisting(['/usr/local/go/bin/go', '/usr/lib/go/bin/go']))
  if (path === null) return { usable: false, wanted, reason: 'there is no Go to build it with' }
  // Asked inside the module: an older Go that may fetch toolchains answers with the one it would use.
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

interface BuildGoProgramInput {
  /** In messages: `the Temporal CLI`. */
  what: string
  go: string
  module: string
  /** Import path of the program. */
  command: string
  /** `-X` assignments. @default none */
  linkerFlags?: string
  /** Path of the binary; its folder exists. */
  target: string
  context: StepContext
}

export async function buildGoProgram(input: BuildGoProgramInput): Promise<void> {
  const { what, go, module, command, linkerFlags = '', target, context } = input
  await withDirectoryLock({ path: `${target}.lock`, signal: context.signal }, async () => {
    if (await exists(target)) return
    const temporary = `${target}.new`
    try {
      await requireCommand({
        what: `Building ${what}`,
        command: go,
        args: [
          'build',
          // Names each package when it is compiled, for displays.
          '-v',
          '-mod=readonly',
          '-buildvcs=false',
          '-ldflags',
          `-s -w ${linkerFlags}`.trim(),
          '-o',
          temporary,
          command,
        ],
        cwd: module,
        env: goEnvironment(),
        // 20 minutes: five times the measured build, for slow mirrors.
        timeoutMs: 1_200_000,
        signal: context.signal,
        onLine: context.saw,
      })
      await rename(temporary, target)
    } finally {
      await rm(temporary, { force: true })
    }
  })
}

/** A workspace file or flags around the checkout must not reach into our module. */
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
