import { createReadStream } from 'node:fs'
import { access, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { LonghaulError } from '../../../contracts/errors.ts'
import {
  type BaseImageIdentity,
  type BaseImageName,
  readBaseImageRecipe,
  buildRootFilesystem,
  canBootstrap,
} from './base-image-rootfs.ts'
import { withDirectoryLock } from '../../../platform/directory-lock.ts'
import { finishProgress } from '../engine/engine-errors.ts'
import type { Engine } from '../engine/engine.ts'
import { imageExists } from './images.ts'
import { makeDirectory } from '../../../platform/files.ts'
import { buildInContainer } from './base-image-container.ts'

export interface EnsureBaseImageInput {
  engine: Engine
  /** Directory that caches the file system archive by recipe hash, shared by all engines of the machine. */
  cacheDir: string
  log: (line: string) => void
  signal?: AbortSignal
  /** @default `debian-base`, the base of all synthetic task images */
  name?: BaseImageName
}

export interface EnsureBaseImageResult {
  tag: string
  /** The work that was necessary. */
  did: 'nothing' | 'imported' | 'built'
}

/** Ensures the base of task images: it is made once per machine, by debootstrap or in a container, and imported once per engine. Safe
 *  to interrupt and to repeat, because everything is made under a temporary name and renamed when complete.
 *  @throws LonghaulError `Stack.SetupFailed` */
export async function ensureBaseImage(input: EnsureBaseImageInput): Promise<EnsureBaseImageResult> {
  const identity = await readBaseImageRecipe(input.name)
  if (await imageExists({ engine: input.engine, image: identity.tag })) return { tag: identity.tag, did: 'nothing' }
  return withArchive(input, identity, async (archive, built) => {
    if (await imageExists({ engine: input.engine, image: identity.tag })) return { tag: identity.tag, did: 'nothing' }
    await importArchive(input, identity, archive)
    return { tag: identity.tag, did: built ? 'built' : 'imported' }
  })
}

/** Worker images ship archives of base images here, so that a sandbox host needs neither root nor debootstrap. */
const SHIPPED = new URL('../../../../infra/built/', import.meta.url)

/**
 * Makes the archive without an engine. Worker images are built on the archive and contain it.
 * @internal for `infra/images`
 */
export async function ensureBaseArchive(input: ArchiveInput): Promise<{ path: string; name: string; tag: string }> {
  const identity = await readBaseImageRecipe(input.name)
  const path = await withArchive(input, identity, (archive) => Promise.resolve(archive))
  return { path, name: `${identity.archive}.tar.gz`, tag: identity.tag }
}

/** Without an engine only debootstrap can make the archive. */
type ArchiveInput = Omit<EnsureBaseImageInput, 'engine'> & { engine?: Engine }

/** Longer than any build of the archive. */
const WAIT_MS = 3 * 60 * 60_000

/** Holds the archive's lock: one process builds the archive, and others that share the cache wait. */
async function withArchive<T>(
  input: ArchiveInput,
  identity: BaseImageIdentity,
  use: (archive: string, built: boolean) => Promise<T>,
): Promise<T> {
  await makeDirectory(input.cacheDir)
  const cached = join(input.cacheDir, `${identity.archive}.tar.gz`)
  let isTold = false
  const onWait = (): void => {
    if (!isTold) input.log('base image: waiting for another process that makes it')
    isTold = true
  }
  const lock = { path: `${cached}.lock`, timeoutMs: WAIT_MS, signal: input.signal, onWait }
  return withDirectoryLock(lock, async () => {
    const shipped = fileURLToPath(new URL(`${identity.archive}.tar.gz`, SHIPPED))
    if (await fileExists(shipped)) return use(shipped, false)
    return use(cached, await ensureArchive(input, identity, cached))
  })
}

async function ensureArchive(input: ArchiveInput, identity: BaseImageIdentity, archive: string): Promise<boolean> {
  if (await fileExists(archive)) return false
  const started = Date.now()
  const temporary = `${archive}.new`
  const folder = join(input.cacheDir, `${identity.archive}.rootfs`)
  // This process holds the lock, so an existing folder was left by a killed build.
  await rm(folder, { recursive: true, force: true })
  try {
    const { engine, log, signal = new AbortController().signal } = input
    if (engine === undefined || canBootstrap()) {
      await buildRootFilesystem({ recipe: identity.recipe, folder, archive: temporary, log, signal })
    } else {
      await buildInContainer({ engine, identity, archive: temporary, log, signal })
    }
    await rename(temporary, archive)
  } finally {
    await rm(folder, { recursive: true, force: true })
    await rm(temporary, { force: true })
  }
  input.log(`base image: file system built in ${seconds(started)}`)
  return true
}

async function importArchive(input: EnsureBaseImageInput, identity: BaseImageIdentity, archive: string): Promise<void> {
  const started = Date.now()
  const [repo, tag] = identity.tag.split(':') as [string, string]
  const size = (await stat(archive)).size
  input.log(`base image: importing ${Math.round(size / 1e6)} MB as ${identity.tag}`)
  const { docker } = input.engine
  const progress = await docker.importImage(createReadStream(archive), { repo, tag, message: 'longhaul debian base' })
  await finishProgress(progress).catch((error: Error) => {
    throw importFailed(error)
  })
  input.log(`base image: imported in ${seconds(started)}`)
}

function importFailed(cause: Error): LonghaulError {
  return new LonghaulError({
    code: 'Stack.SetupFailed',
    message: `The engine refused the base image archive: ${cause.message}`,
    cause,
  })
}

function fileExists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}

function seconds(since: number): string {
  return `${((Date.now() - since) / 1000).toFixed(1)} s`
}
