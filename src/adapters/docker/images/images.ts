import type Docker from 'dockerode'
import { pullFailure } from './pull-failure.ts'
import { finishProgress, ignoreGone, isStatus } from '../engine/engine-errors.ts'
import { type Engine, enginePlace } from '../engine/engine.ts'
import { createSlots } from '../../../platform/limiter.ts'
import { LonghaulError } from '../../../contracts/errors.ts'
import { sha256Hex } from '../../../platform/hash.ts'
import { LABELS, PROJECT } from '../container/labels.ts'

/** More concurrent commits slow the engine down (measured on 2 cores). */
const buildSlots = createSlots(4)

interface ImageInput {
  engine: Engine
  image: string
}

export async function imageExists({ engine, image }: ImageInput): Promise<boolean> {
  return (await imageDigest({ engine, image })) !== null
}

/** Returns the registry digest if the image has one, otherwise its content id; null if the engine does not have the image. */
export async function imageDigest(input: ImageInput): Promise<string | null> {
  return (await imageFacts(input))?.digest ?? null
}

interface ImageFacts {
  /** Registry digest if the image has one, otherwise its content id. */
  digest: string
  /** Every registry digest of the image; empty for an image that was made here. */
  registryDigests: string[]
  architecture: string
}

/** Returns null if the engine does not have the image. */
export async function imageFacts({ engine, image }: ImageInput): Promise<ImageFacts | null> {
  try {
    const facts = await engine.docker.getImage(image).inspect()
    const digests = ((facts.RepoDigests as string[] | null) ?? []).map((name) => name.split('@')[1] ?? '')
    return { digest: digests[0] ?? facts.Id, registryDigests: digests, architecture: facts.Architecture }
  } catch (error) {
    if (isStatus(error, 404)) return null
    throw error
  }
}

interface BuildTaskImageInput {
  engine: Engine
  base: string
  /** `name:tag` of the new image. */
  tag: string
  /** Tar of the repository's directory, entries relative to it (`./setup.py`, `.git/…`). */
  repoTar: Uint8Array
  labels: Record<string, string>
  /** @default /testbed */
  repoDir?: string
}

interface BuildTaskImageResult {
  image: string
  digest: string
}

/** Builds a task image without running a container: the archive is put into a created container, which is committed and removed. */
export async function buildTaskImage(input: BuildTaskImageInput): Promise<BuildTaskImageResult> {
  return buildSlots.use(async () => {
    const { engine, base, tag, repoTar, labels, repoDir = '/testbed' } = input
    const [repo, version] = tag.split(':') as [string, string]
    const container = await createBuildContainer({ engine, base, tag })
    try {
      await container.putArchive(Buffer.from(repoTar), { path: repoDir })
      const commit: CommitOptions = { repo, tag: version, pause: false, changes: imageChanges(repoDir, labels) }
      const { Id } = (await container.commit(commit)) as { Id: string }
      return { image: tag, digest: Id }
    } finally {
      await container.remove({ force: true, v: true }).catch(ignoreGone)
    }
  })
}

interface CommitOptions {
  repo: string
  tag: string
  pause: boolean
  changes: string[]
}

function imageChanges(repoDir: string, labels: Record<string, string>): string[] {
  const own = Object.entries(labels).map(([key, value]) => `LABEL ${key}=${JSON.stringify(value)}`)
  return [`WORKDIR ${repoDir}`, ...WITHOUT_BUILD_LABELS, ...own]
}

/** Named after the tag, so that the next build finds and replaces what a killed build left behind. */
async function createBuildContainer({ engine, base, tag }: { engine: Engine; base: string; tag: string }) {
  const name = `lh-build-${sha256Hex(tag).slice(0, 16)}`
  const create = () =>
    engine.docker.createContainer({
      name,
      Image: base,
      Cmd: ['/bin/true'],
      Labels: buildLabels(),
      HostConfig: { NetworkMode: 'none' },
    })
  try {
    return await create()
  } catch (error) {
    if (!isStatus(error, 409)) throw error
    await engine.docker.getContainer(name).remove({ force: true, v: true }).catch(ignoreGone)
    return create()
  }
}

/** Task images are published for this platform only. Under emulation an image runs several times slower. */
const PLATFORM = 'linux/amd64'

interface PullImageInput {
  engine: Engine
  /** `name:tag` or `name@sha256:…`. */
  image: string
  log: (line: string) => void
  signal: AbortSignal
}

/** Pulls an image from its registry. A pull continues an interrupted one, because the engine keeps complete layers.
 *  @throws LonghaulError `Sandbox.ImageMissing` if the registry does not have the image, `Sandbox.OutOfDisk`, `Sandbox.PullFailed` */
export async function pullImage({ engine, image, log, signal }: PullImageInput): Promise<void> {
  const started = Date.now()
  log(`pulling ${image}`)
  // Without a tag the engine would pull every tag.
  const reference = /[:@][^/]*$/.test(image) ? image : `${image}:latest`
  try {
    const progress = await engine.docker.pull(reference, { platform: PLATFORM, abortSignal: signal })
    await finishProgress(progress)
    // An engine that stops in the middle ends its progress without a word.
    if (!(await imageExists({ engine, image }))) throw new Error('the engine ended the pull without the image')
  } catch (error) {
    if (signal.aborted) throw error
    throw pullFailed(image, error)
  }
  log(`pulled ${image} in ${((Date.now() - started) / 1000).toFixed(1)} s`)
}

interface FindImageInput extends ImageInput {
  signal: AbortSignal
}

/**
 * Asks through the engine whether a registry has an image, so that the answer applies to the engine's pulls. Returns null if the
 * registry gives no clear answer: rate limit, no credentials (a registry that hides an image answers the same), no network.
 */
export async function registryHasImage({ engine, image, signal }: FindImageInput): Promise<boolean | null> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  // The client's own method for this request cannot be aborted.
  engine.docker.modem.dial(
    {
      path: `/distribution/${image}/json`,
      method: 'GET',
      abortSignal: signal,
      statusCodes: { 200: true, 401: 'unauthorized', 403: 'denied', 404: 'not found', 500: 'server error' },
    },
    (error: Error | null) => (error === null ? resolve() : reject(error)),
  )
  try {
    await promise
    return true
  } catch (error) {
    signal.throwIfAborted()
    // An engine that does not know this endpoint also answers 404.
    const isAnswer = isStatus(error, 404) && !/page not found/i.test(String(error))
    return isAnswer ? false : null
  }
}

function pullFailed(image: string, cause: unknown): LonghaulError {
  const reason = cause instanceof Error ? cause.message : String(cause)
  return pullFailure({ image, reason: isStatus(cause, 404) ? `not found: ${reason}` : reason, by: 'engine', cause })
}

interface RequireImageInput {
  engine: Engine
  image: string
  /** The digest that the task was gated with. Images built on a host have no registry digest and are not compared. */
  expectedDigest?: string | undefined
}

/** Requires the image to exist, to match this machine's architecture and to have the expected digest, before anything runs in it.
 *  @returns its digest
 *  @throws LonghaulError `Sandbox.ImageMissing`, `Sandbox.ImageMismatch` */
export async function requireImage({ engine, image, expectedDigest }: RequireImageInput): Promise<string> {
  const facts = await imageFacts({ engine, image })
  if (facts === null) {
    const message = 'The engine does not have the image'
    throw new LonghaulError({ code: 'Sandbox.ImageMissing', message, details: { image } })
  }
  const { architecture } = await enginePlace(engine)
  if (facts.architecture !== architecture) {
    // It might run under emulation, many times slower. Its time-outs and crashes would then say nothing about a patch.
    throw mismatch('Expected an image for this machine', { image, wanted: architecture, found: facts.architecture })
  }
  const { digest, registryDigests } = facts
  for (const wanted of [image.split('@')[1], expectedDigest]) {
    if (wanted === undefined || registryDigests.length === 0 || registryDigests.includes(wanted)) continue
    throw mismatch('Expected the image that the task was gated with', { image, wanted, found: digest })
  }
  return digest
}

function mismatch(message: string, details: Record<string, string>): LonghaulError {
  return new LonghaulError({ code: 'Sandbox.ImageMismatch', message, details })
}

// Containers that make or inspect an image. They run none of the task's code, have no network and few capabilities.

/** The reaper finds an abandoned build container by these labels. */
export function buildLabels(): Record<string, string> {
  return { [LABELS.project]: PROJECT, [LABELS.role]: 'build', [LABELS.created]: String(Date.now()) }
}

/** Clears the build container's labels in commits. Every container of the image would otherwise inherit them, even containers that
 *  are not ours. */
export const WITHOUT_BUILD_LABELS = [LABELS.project, LABELS.role, LABELS.created].map((label) => `LABEL ${label}=""`)

export interface BuildContainerInput {
  name: string
  image: string
  command: string[]
  user: string
  /** The capabilities that the container keeps. */
  capabilities: string[]
  processes: number
  memoryBytes: number
}

export function buildContainerSpec(input: BuildContainerInput): Docker.ContainerCreateOptions {
  const { name, image, command, user, capabilities, processes, memoryBytes } = input
  return {
    name,
    Image: image,
    Entrypoint: [],
    Cmd: command,
    User: user,
    NetworkDisabled: true,
    Labels: buildLabels(),
    HostConfig: {
      NetworkMode: 'none',
      CapDrop: ['ALL'],
      CapAdd: capabilities,
      SecurityOpt: ['no-new-privileges:true'],
      Memory: memoryBytes,
      MemorySwap: memoryBytes,
      PidsLimit: processes,
      LogConfig: { Type: 'none', Config: {} },
    },
  }
}
