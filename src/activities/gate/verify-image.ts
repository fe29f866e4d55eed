import { checkRepository } from '../../adapters/docker/images/check-repository.ts'
import { toSandboxError } from '../../adapters/docker/engine/engine-errors.ts'
import type { Engine } from '../../adapters/docker/engine/engine.ts'
import type { ImageKeeper } from '../../adapters/docker/images/image-keeper.ts'
import { imageFacts, requireImage } from '../../adapters/docker/images/images.ts'
import { scrubbedImage } from '../../adapters/docker/images/scrubbed-image.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { gateKeys } from '../../contracts/keys.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { sha256Hex } from '../../platform/hash.ts'
import type { EnsureImage } from '../episode/open-sandbox.ts'

export interface VerifiedImage {
  /** Registry digest if the image has one, otherwise its content id. */
  digest: string
  /** Null for an image that was made on a host. */
  registryDigest: string | null
}

export type VerifyImage = (task: Task, signal: AbortSignal) => Promise<VerifiedImage>

async function looking<T>(image: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw toSandboxError(error, { doing: 'looking into an image', details: { image } })
  }
}

/** The result of the check of an image. Keyed by digest, so that each image is checked once. */
interface ImageRecord {
  schema: 'longhaul.image-check/1'
  image: string
  digest: string
  repoDir: string
  commit: string
  head: string
}

/**
 * Verifies that a task can be played here, before anything is graded: its image exists or can be pulled, is the one that the row names
 * and matches this machine, its repository is at the task's commit, and its history can be removed for agents. An image that this host
 * makes from a seed is known to be correct.
 * @throws LonghaulError `Sandbox.ImageMissing`, `Sandbox.PullFailed`, `Sandbox.ImageMismatch`, `Sandbox.ImageUnsuitable`
 */
export function createImageVerifier(deps: {
  engine: Engine
  keeper: ImageKeeper
  store: ArtifactStore
  ensureImage: EnsureImage
}): VerifyImage {
  const { engine, keeper, store, ensureImage } = deps
  return async (task, signal) => {
    const { image, repoDir, baseCommit: commit } = task
    await ensureImage(task, signal)
    const digest = await requireImage({ engine, image })
    const facts = await imageFacts({ engine, image })
    const registryDigest = (facts?.registryDigests.length ?? 0) > 0 ? digest : null
    if (task.synthetic !== null) return { digest, registryDigest }

    const key = gateKeys.image(sha256Hex(JSON.stringify([digest, repoDir, commit])).slice(0, 32))
    if ((await store.readRecord<ImageRecord>(key)) === null) {
      signal.throwIfAborted()
      const head = await looking(image, async () => {
        const found = await checkRepository({ engine, image, repoDir, commit })
        await scrubbedImage({ engine, keeper, image, digest, repoDir, signal })
        return found
      })
      const found: ImageRecord = { schema: 'longhaul.image-check/1', image, digest, repoDir, commit, head }
      await store.claimRecord(key, found)
    }
    return { digest, registryDigest }
  }
}
