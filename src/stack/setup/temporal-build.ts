import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { packageFile } from '../paths.ts'
import { runCommand } from '../../platform/run-command.ts'
import type { StepContext } from '../steps.ts'
import { buildGoProgram, findGo, type GoToolchain, moduleKey } from './go-build.ts'

const MODULE = packageFile('infra/temporal-cli')
const COMMAND = 'github.com/temporalio/cli/cmd/temporal'
const VERSION_VARIABLE = 'github.com/temporalio/cli/internal/temporalcli.Version'
/** Raised by hand when the flags of the build change the binary. */
const BUILD_REVISION = '1'

/** Names the cache entry. */
export function buildKey(): Promise<string> {
  return moduleKey({ module: MODULE, revision: BUILD_REVISION })
}

/** Release of the CLI that `go.mod` pins, as `1.8.2`. */
export async function pinnedCliVersion(): Promise<string> {
  const goMod = await readFile(join(MODULE, 'go.mod'), 'utf8')
  return /github\.com\/temporalio\/cli v(\S+)/.exec(goMod)?.[1] ?? '0.0.0'
}

export function findGoForCli({ context }: { context: StepContext }): Promise<GoToolchain> {
  return findGo({ module: MODULE, context })
}

interface BuildTemporalCliInput {
  go: string
  /** Path of the binary; its folder exists. */
  target: string
  context: StepContext
}

/** About 4 minutes on two cores from an empty Go cache, seconds from a warm one. */
export async function buildTemporalCli({ go, target, context }: BuildTemporalCliInput): Promise<void> {
  context.log('building the Temporal CLI with Go (about 4 minutes, once)')
  const linkerFlags = `-X ${VERSION_VARIABLE}=${await pinnedCliVersion()}`
  await buildGoProgram({ what: 'the Temporal CLI', go, module: MODULE, command: COMMAND, linkerFlags, target, context })
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
