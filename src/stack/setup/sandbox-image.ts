import { join } from 'node:path'

import { ensureBaseImage } from '../../adapters/docker/images/base-image.ts'
import { connectEngine } from '../../adapters/docker/engine/engine.ts'
import { ensureRunnerVolume } from '../../adapters/docker/sandbox/runner-volume.ts'
import type { StepContext } from '../steps.ts'

export interface EnsureSandboxImageInput {
  dockerHost: string
  cacheDir: string
  context: StepContext
}

/** @returns tag of the base image in that engine */
export async function ensureSandboxImage(input: EnsureSandboxImageInput): Promise<{ value: string; did: string }> {
  const engine = await connectEngine({ host: input.dockerHost })
  const { tag, did } = await ensureBaseImage({
    engine,
    cacheDir: join(input.cacheDir, 'images'),
    log: input.context.log,
    signal: input.context.signal,
  })
  await ensureRunnerVolume({ engine, image: tag })
  return { value: tag, did: did === 'nothing' ? 'present' : did }
}
