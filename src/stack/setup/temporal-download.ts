import { createWriteStream } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

import { requireCommand } from '../run-command.ts'
import type { StepContext } from '../steps.ts'
import { pinnedCliVersion } from './temporal-build.ts'
import { inspectTemporalCli } from './temporal-inspect.ts'

/** The service that Temporal's SDKs ask for their development server. */
const SERVICE = 'https://temporal.download/cli'
/** Long enough for a slow network to answer, short enough not to matter before a build of minutes. */
const ANSWER_TIMEOUT_MS = 8_000
/** About 60 MB. */
const TRANSFER_TIMEOUT_MS = 180_000

export interface DownloadTemporalCliInput {
  target: string
  context: StepContext
  service?: string
}

/** False when there is no way to the service, or what came is not the wanted release; the caller then builds it.
 *  The release is pinned by version and carried by TLS; it publishes no hash that could be pinned for both archives. */
export async function downloadTemporalCli(input: DownloadTemporalCliInput): Promise<boolean> {
  const { target, context, service = SERVICE } = input
  const version = await pinnedCliVersion()
  const folder = `${target}.download-${process.pid}`
  try {
    const archive = await askForArchive({ service, version, signal: context.signal })
    context.log(`downloading the Temporal CLI ${version}`)
    const binary = await fetchBinary({ ...archive, folder, signal: context.signal })
    if ((await inspectTemporalCli(binary)) === null) throw new Error('the archive holds something else')
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
  await mkdir(folder, { recursive: true })
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
