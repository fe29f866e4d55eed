import { LonghaulError } from '../../../contracts/errors.ts'
import { enginePlace } from '../engine/engine-place.ts'
import type { Engine } from '../engine/engine.ts'
import { imageFacts } from './images.ts'

export interface RequireImageInput {
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
