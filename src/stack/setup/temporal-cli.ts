import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'

import { LonghaulError } from '../../contracts/errors.ts'
import { exists } from '../../platform/files.ts'
import type { StepContext } from '../steps.ts'
import { findProgram } from './system-packages.ts'
import { buildTemporalCli, buildKey, findGo, type GoToolchain } from './temporal-build.ts'
import { downloadTemporalCli } from './temporal-download.ts'
import { inspectTemporalCli, type TemporalCli } from './temporal-inspect.ts'

/** Current details and priorities, which our workflows set, need a server of this age at least. */
const OLDEST_SERVER = [1, 28] as const

export interface EnsureTemporalCliInput {
  cacheDir: string
  env?: NodeJS.ProcessEnv
  context: StepContext
}

/** TEMPORAL_CLI_PATH → `temporal` on PATH → cached binary → download → build with Go.
 *  @throws LonghaulError `Stack.SetupFailed` with the ways to get one */
export async function ensureTemporalCli(input: EnsureTemporalCliInput): Promise<{ value: TemporalCli; did: string }> {
  const { cacheDir, env = process.env, context } = input
  const named = env['TEMPORAL_CLI_PATH']
  if (named !== undefined && named !== '') return { value: await requireNamed(named), did: 'TEMPORAL_CLI_PATH' }

  const onPath = findProgram('temporal', env['PATH'] ?? '')
  if (onPath !== null) {
    const cli = await inspectTemporalCli(onPath)
    if (cli !== null && isNewEnough(cli)) return { value: cli, did: `${onPath}, server ${cli.serverVersion}` }
    context.log(`${onPath} is not a Temporal CLI with a server of ${OLDEST_SERVER.join('.')} or newer: passed over`)
  }

  const folder = join(cacheDir, 'temporal', await buildKey())
  const cached = join(folder, 'temporal')
  if (await exists(cached)) {
    const cli = await inspectTemporalCli(cached)
    if (cli !== null) return { value: cli, did: `cached, server ${cli.serverVersion}` }
  }

  await mkdir(folder, { recursive: true })
  const downloaded = await downloadTemporalCli({ target: cached, context })
  if (downloaded) return { value: await requireNamed(cached), did: 'downloaded' }

  const go = await findGo({ context })
  if (!go.usable) throw noWayLeft(go)
  await buildTemporalCli({ go: go.path, target: cached, context })
  return { value: await requireNamed(cached), did: `built with ${go.version}` }
}

async function requireNamed(path: string): Promise<TemporalCli> {
  const cli = await inspectTemporalCli(path)
  if (cli !== null) return cli
  throw new LonghaulError({
    code: 'Stack.SetupFailed',
    message: 'Expected a Temporal CLI that answers --version with its server',
    details: { path },
  })
}

function isNewEnough({ serverVersion }: TemporalCli): boolean {
  const [major = 0, minor = 0] = serverVersion.split('.').map(Number)
  return major > OLDEST_SERVER[0] || (major === OLDEST_SERVER[0] && minor >= OLDEST_SERVER[1])
}

function noWayLeft(go: GoToolchain & { usable: false }): LonghaulError {
  return new LonghaulError({
    code: 'Stack.SetupFailed',
    message: [
      `No Temporal server: none is configured, on PATH or in the cache, it could not be downloaded, and ${go.reason}.`,
      'One of these helps:',
      '  - set TEMPORAL_ADDRESS=host:port to use a server that runs already',
      '  - put the Temporal CLI on PATH or name it in TEMPORAL_CLI_PATH (https://docs.temporal.io/cli)',
      `  - install Go ${go.wanted} or newer (https://go.dev/dl); Longhaul then builds the CLI once, about 4 minutes`,
    ].join('\n'),
  })
}
