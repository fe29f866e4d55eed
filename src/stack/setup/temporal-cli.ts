import { rename, rm, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { LonghaulError } from '../../contracts/errors.ts'
import { exists, makeDirectory } from '../../platform/files.ts'
import type { StepContext } from '../steps.ts'
import { type GoToolchain, buildGoPrograms, findGo, moduleKey } from './go-build.ts'
import { findProgram } from './system-packages.ts'
import { createWriteStream } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { requireCommand, runCommand } from '../../platform/run-command.ts'
import { packageFile } from '../paths.ts'

/** The first server with current details and priorities, which our workflows set. */
const OLDEST_SERVER = [1, 28] as const

interface EnsureTemporalCliInput {
  cacheDir: string
  env?: NodeJS.ProcessEnv
  context: StepContext
}

/** TEMPORAL_CLI_PATH → `temporal` on PATH → cached binary → download → build with Go.
 *  @throws LonghaulError `Stack.SetupFailed` with the ways to get a CLI */
export async function ensureTemporalCli(input: EnsureTemporalCliInput): Promise<{ value: TemporalCli; did: string }> {
  const { cacheDir, env = process.env, context } = input
  const named = env['TEMPORAL_CLI_PATH']
  if (named !== undefined && named !== '') return { value: await requireNamed(named), did: 'TEMPORAL_CLI_PATH' }

  const onPath = findProgram('temporal', env['PATH'] ?? '')
  if (onPath !== null) {
    const cli = await inspectTemporalCli(onPath)
    if (cli !== null && isNewEnough(cli)) return { value: cli, did: `${onPath}, server ${cli.serverVersion}` }
    context.log(`${onPath} is not a Temporal CLI with a server of ${OLDEST_SERVER.join('.')} or newer: ignored`)
  }

  const folder = join(cacheDir, 'temporal', await buildKey())
  const cached = join(folder, 'temporal')
  if (await exists(cached)) {
    const cli = await inspectTemporalCli(cached)
    if (cli !== null) return { value: cli, did: `cached, server ${cli.serverVersion}` }
  }

  await makeDirectory(folder)
  const downloaded = await downloadTemporalCli({ target: cached, context })
  if (downloaded) return { value: await requireNamed(cached), did: 'downloaded' }

  const go = await findGoForCli({ context })
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

/** Temporal's SDKs download their development server here. */
const SERVICE = 'https://temporal.download/cli'
/** Enough for a slow network, negligible before a build of minutes. */
const ANSWER_TIMEOUT_MS = 8_000
/** For about 60 MB. */
const TRANSFER_TIMEOUT_MS = 180_000

interface DownloadTemporalCliInput {
  target: string
  context: StepContext
  service?: string
}

/** Returns false if the service is unreachable or delivers no Temporal CLI; the caller then builds it. The version pins the release and TLS
 *  protects it; Temporal publishes no hash that could be pinned for both archives. */
async function downloadTemporalCli(input: DownloadTemporalCliInput): Promise<boolean> {
  const { target, context, service = SERVICE } = input
  const version = await pinnedCliVersion()
  const folder = `${target}.download-${process.pid}`
  try {
    const archive = await askForArchive({ service, version, signal: context.signal })
    context.log(`downloading the Temporal CLI ${version}`)
    const binary = await fetchBinary({ ...archive, folder, signal: context.signal })
    if ((await inspectTemporalCli(binary)) === null) throw new Error('the archive has other contents')
    await rename(binary, target)
    return true
  } catch (error) {
    context.signal.throwIfAborted()
    context.log(`no download of the Temporal CLI (${reasonOf(error)})`)
    return false
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

interface Archive {
  archiveUrl: string
  fileToExtract: string
}

async function askForArchive(input: { service: string; version: string; signal: AbortSignal }): Promise<Archive> {
  const query = new URLSearchParams({
    platform: process.platform,
    arch: process.arch === 'x64' ? 'amd64' : process.arch,
    format: 'tar.gz',
  })
  const response = await fetch(`${input.service}/v${input.version}?${query.toString()}`, {
    signal: AbortSignal.any([input.signal, AbortSignal.timeout(ANSWER_TIMEOUT_MS)]),
  })
  if (!response.ok) throw new Error(`the service answered ${response.status}`)
  const answer = (await response.json()) as Partial<Archive>
  if (!answer.archiveUrl?.endsWith('.tar.gz') || answer.fileToExtract === undefined) throw new Error('unknown answer')
  return { archiveUrl: answer.archiveUrl, fileToExtract: answer.fileToExtract }
}

async function fetchBinary(input: Archive & { folder: string; signal: AbortSignal }): Promise<string> {
  const { archiveUrl, fileToExtract, folder, signal } = input
  const response = await fetch(archiveUrl, {
    signal: AbortSignal.any([signal, AbortSignal.timeout(TRANSFER_TIMEOUT_MS)]),
  })
  if (!response.ok || response.body === null) throw new Error(`the archive answered ${response.status}`)
  await makeDirectory(folder)
  const archive = join(folder, 'archive.tar.gz')
  await pipeline(Readable.fromWeb(response.body), createWriteStream(archive))
  await requireCommand({
    what: 'Unpacking the Temporal CLI',
    command: 'tar',
    args: ['-xzf', archive, '-C', folder, fileToExtract],
    timeoutMs: 60_000,
    signal,
  })
  return join(folder, fileToExtract)
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const cause = error.cause
  return cause instanceof Error ? cause.message : error.message
}

const MODULE = packageFile('infra/temporal-cli')
const COMMAND = 'github.com/temporalio/cli/cmd/temporal'
const VERSION_VARIABLE = 'github.com/temporalio/cli/internal/temporalcli.Version'
/** Raise it when build flags change the binary. */
const BUILD_REVISION = '1'

function buildKey(): Promise<string> {
  return moduleKey({ module: MODULE, revision: BUILD_REVISION })
}

/** CLI release that `go.mod` pins, such as `1.8.2`. */
export async function pinnedCliVersion(): Promise<string> {
  const goMod = await readFile(join(MODULE, 'go.mod'), 'utf8')
  return /github\.com\/temporalio\/cli v(\S+)/.exec(goMod)?.[1] ?? '0.0.0'
}

function findGoForCli({ context }: { context: StepContext }): Promise<GoToolchain> {
  return findGo({ module: MODULE, context })
}

interface BuildTemporalCliInput {
  go: string
  /** Path of the binary; its folder exists. */
  target: string
  context: StepContext
}

/** Takes about 4 minutes on two cores with an empty Go cache, seconds with a warm one. */
async function buildTemporalCli({ go, target, context }: BuildTemporalCliInput): Promise<void> {
  context.log('building the Temporal CLI with Go (about 4 minutes, once)')
  const linkerFlags = `-X ${VERSION_VARIABLE}=${await pinnedCliVersion()}`
  await buildGoPrograms({
    what: 'the Temporal CLI',
    go,
    module: MODULE,
    commands: [COMMAND],
    linkerFlags,
    target,
    context,
  })
}

export interface TemporalCli {
  path: string
  /** Of the built-in server, such as `1.31.2`; each version has its own database file. */
  serverVersion: string
}

/** Null if the file does not run or is not a Temporal CLI. */
async function inspectTemporalCli(path: string): Promise<TemporalCli | null> {
  const { exitCode, stdout } = await runCommand({ command: path, args: ['--version'], timeoutMs: 20_000 })
  const serverVersion = /Server (\d+\.\d+\.\d+)/.exec(stdout)?.[1]
  return exitCode === 0 && serverVersion !== undefined ? { path, serverVersion } : null
}
