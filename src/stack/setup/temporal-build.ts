import { readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { withDirectoryLock } from '../../platform/directory-lock.ts'
import { exists } from '../../platform/files.ts'
import { packageFile } from '../paths.ts'
import { requireCommand, runCommand } from '../../platform/run-command.ts'
import type { StepContext } from '../steps.ts'
import { findProgram } from './system-packages.ts'
import { sha256OfParts } from '../../platform/hash.ts'

const MODULE = packageFile('infra/temporal-cli')
const COMMAND = 'github.com/temporalio/cli/cmd/temporal'
const VERSION_VARIABLE = 'github.com/temporalio/cli/internal/temporalcli.Version'
/** Raised by hand when the flags below change the binary. */
const BUILD_REVISION = '1'

export type GoToolchain =
  | { usable: true; path: string; version: string }
  | { usable: false; wanted: string; reason: string }

/** Names the cache entry: the binary is a function of these. */
export async function buildKey(): Promise<string> {
  const [goMod, goSum] = await Promise.all([readFile(join(MODULE, 'go.mod')), readFile(join(MODULE, 'go.sum'))])
  return sha256OfParts(goMod, goSum, BUILD_REVISION, process.platform, process.arch).slice(0, 12)
}

/** Release of the CLI that `go.mod` pins, as `1.8.2`. */
export async function pinnedCliVersion(): Promise<string> {
  const goMod = await readFile(join(MODULE, 'go.mod'), 'utf8')
  return /github\.com\/temporalio\/cli v(\S+)/.exec(goMod)?.[1] ?? '0.0.0'
}

export async function findGo({ context }: { context: StepContext }): Promise<GoToolchain> {
  const wanted = /^go (\S+)$/m.exec(await readFile(join(MODULE, 'go.mod'), 'utf8'))?.[1] ?? '1.26.4'
  const path = findProgram('go') ?? (await firstExisting(['/usr/local/go/bin/go', '/usr/lib/go/bin/go']))
  if (path === null) return { usable: false, wanted, reason: 'there is no Go to build it with' }
  // Asked inside the module: an older Go that may fetch toolchains answers with the one it would use.
  const { exitCode, stdout, tail } = await runCommand({
    command: path,
    args: ['env', 'GOVERSION'],
    cwd: MODULE,
    env: goEnvironment(),
    timeoutMs: 120_000,
    signal: context.signal,
  })
  const version = stdout.trim()
  if (exitCode !== 0) return { usable: false, wanted, reason: `${path} cannot build it (${tail.split('\n').at(-1)})` }
  if (isOlder(version, wanted)) return { usable: false, wanted, reason: `${path} is ${version}` }
  return { usable: true, path, version }
}

interface BuildTemporalCliInput {
  go: string
  /** Path of the binary; its folder exists. */
  target: string
  context: StepContext
}

/** About 4 minutes on two cores from an empty Go cache, seconds from a warm one. */
export async function buildTemporalCli({ go, target, context }: BuildTemporalCliInput): Promise<void> {
  await withDirectoryLock({ path: `${target}.lock`, signal: context.signal }, async () => {
    if (await exists(target)) return
    context.log('building the Temporal CLI with Go (about 4 minutes, once)')
    const temporary = `${target}.new`
    const version = await pinnedCliVersion()
    try {
      await requireCommand({
        what: 'Building the Temporal CLI',
        command: go,
        args: [
          'build',
          // Names each package when it is compiled, for displays.
          '-v',
          '-mod=readonly',
          '-buildvcs=false',
          '-ldflags',
          `-s -w -X ${VERSION_VARIABLE}=${version}`,
          '-o',
          temporary,
          COMMAND,
        ],
        cwd: MODULE,
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
