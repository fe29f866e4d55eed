import { buildLabels, WITHOUT_BUILD_LABELS } from './build-container.ts'
import { ignoreGone, isStatus } from '../engine/engine-errors.ts'
import { type Engine, enginePlace } from '../engine/engine.ts'
import { createSlots } from '../../../platform/limiter.ts'
import { LonghaulError } from '../../../contracts/errors.ts'
import { sha256Hex } from '../../../platform/hash.ts'

/** More commits at once make the engine slower, not faster (measured on 2 cores). */
const buildSlots = createSlots(4)

interface ImageInput {
  engine: Engine
  image: string
}

export async function imageExists({ engine, image }: ImageInput): Promise<boolean> {
  return (await imageDigest({ engine, image })) !== null
}

/** Registry digest where the image has one, else its content id; null where the engine has no such image. */
export async function imageDigest(input: ImageInput): Promise<string | null> {
  return (await imageFacts(input))?.digest ?? null
}

interface ImageFacts {
  /** Registry digest where the image has one, else its content id. */
  digest: string
  /** Every digest a registry knows it by; none for an image that was made here. */
  registryDigests: string[]
  architecture: string
}

/** Null where the engine has no such image. */
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

/** A task image without starting a container: the archive is put into a created one, which is committed and removed. */
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

/** Named by the tag, so that what a killed build left behind is found and replaced by the next one. */
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

/** Task images are published for it alone; another one would run under emulation, several times slower. */
const PLATFORM = 'linux/amd64'

interface PullImageInput {
  engine: Engine
  /** `name:tag` or `name@sha256:…`. */
  image: string
  log: (line: string) => void
  signal: AbortSignal
}

/** Pulls an image from its registry. The next pull continues an interrupted one: the engine keeps whole layers.
 *  @throws LonghaulError `Sandbox.ImageMissing` where the registry has no such image, `Sandbox.PullFailed` for the rest */
export async function pullImage({ engine, image, log, signal }: PullImageInput): Promise<void> {
  const started = Date.now()
  log(`pulling ${image}`)
  // Without a tag the engine would pull every one there is.
  const reference = /[:@][^/]*$/.test(image) ? image : `${image}:latest`
  try {
    const progress = await engine.docker.pull(reference, { platform: PLATFORM, abortSignal: signal })
    await new Promise<void>((resolve, reject) => {
      engine.docker.modem.followProgress(progress, (error) => (error === null ? resolve() : reject(error)))
    })
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
 * Whether a registry has an image, by the engine's question: it reaches what its pulls would reach. Null where the answer is another
 * one: too many questions, no credentials (a registry that hides an image answers so too), no network.
 */
export async function registryHasImage({ engine, image, signal }: FindImageInput): Promise<boolean | null> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  // The client's own method cannot be ended.
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
    // An engine that does not know the question says 404 too.
    const isAnswer = isStatus(error, 404) && !/page not found/i.test(String(error))
    return isAnswer ? false : null
  }
}

/** What registries and engines say about a name that is not there, or not for us. */
const MISSING = /not found|manifest unknown|does not exist|no matching manifest|pull access denied|name unknown/i

function pullFailed(image: string, cause: unknown): LonghaulError {
  const reason = cause instanceof Error ? cause.message : String(cause)
  const isMissing = isStatus(cause, 404) || MISSING.test(reason)
  return new LonghaulError({
    code: isMissing ? 'Sandbox.ImageMissing' : 'Sandbox.PullFailed',
    message: isMissing
      ? 'The registry does not have the image; longhaul images build SUITE makes it from the repository’s history'
      : 'The image could not be pulled',
    details: { image, reason: reason.slice(0, 300) },
    cause,
  })
}

interface RequireImageInput {
  engine: Engine
  image: string
  /** What the task was gated with. Images that were built on a host have no digest of a registry, and are not compared. */
  expectedDigest?: string | undefined
}

/** The image as it must be before anything is run in it: there, of this machine's kind, and the very bytes that were asked for.
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
    // It might run under emulation, many times slower: its time-outs and crashes would say nothing about a patch.
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
