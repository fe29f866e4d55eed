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
import type { ImageRecord } from '../../contracts/gates.types.ts'

export interface VerifiedImage {
  /** Registry digest if the image has one, otherwise its content id. */
  digest: string
  /** Null for an image that was made on a host. */
  registryDigest: string | null
}

export type VerifyImage = (task: Task, signal: AbortSignal) => Promise<VerifiedImage>

/** Where images are looked into: by the engine of a host, or in pods. */
export interface ImageInspector {
  /** Makes the image available. */
  identify(task: Task, signal: AbortSignal): Promise<VerifiedImage>
  /** Checks that the repository is at the task's commit and that its history can be removed. @returns its HEAD */
  check(task: Task, digest: string, signal: AbortSignal): Promise<string>
}

export function createEngineInspector(deps: {
  engine: Engine
  keeper: ImageKeeper
  ensureImage: EnsureImage
}): ImageInspector {
  const { engine, keeper, ensureImage } = deps
  return {
    async identify(task, signal) {
      const { image } = task
      await ensureImage(task, signal)
      const digest = await requireImage({ engine, image })
      const facts = await imageFacts({ engine, image })
      return { digest, registryDigest: (facts?.registryDigests.length ?? 0) > 0 ? digest : null }
    },
    async check({ image, repoDir, baseCommit: commit }, digest, signal) {
      try {
        const head = await checkRepository({ engine, image, repoDir, commit })
        await scrubbedImage({ engine, keeper, image, digest, repoDir, signal })
        return head
      } catch (error) {
        throw toSandboxError(error, { doing: 'looking into an image', details: { image } })
      }
    },
  }
}

/**
 * Verifies that a task can be played here, before anything is graded: its image exists or can be pulled, is the one that the row names
 * and matches this machine, its repository is at the task's commit, and its history can be removed for agents. An image that this host
 * makes from a seed is known to be correct.
 * @throws LonghaulError `Sandbox.ImageMissing`, `Sandbox.PullFailed`, `Sandbox.ImageMismatch`, `Sandbox.ImageUnsuitable`
 */
export function createImageVerifier({
  inspector,
  store,
}: {
  inspector: ImageInspector
  store: ArtifactStore
}): VerifyImage {
  return async (task, signal) => {
    const { image, repoDir, baseCommit: commit } = task
    const verified = await inspector.identify(task, signal)
    if (task.synthetic !== null) return verified

    const { digest } = verified
    const key = gateKeys.image(sha256Hex(JSON.stringify([digest, repoDir, commit])).slice(0, 32))
    if ((await store.readRecord<ImageRecord>(key)) === null) {
      signal.throwIfAborted()
      const head = await inspector.check(task, digest, signal)
      const found: ImageRecord = { schema: 'longhaul.image-check/1', image, digest, repoDir, commit, head }
      await store.claimRecord(key, found)
    }
    return verified
  }
}
