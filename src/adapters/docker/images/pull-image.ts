import { LonghaulError } from '../../../contracts/errors.ts'
import { isStatus } from '../engine/engine-errors.ts'
import type { Engine } from '../engine/engine.ts'

/** Task images are published for it alone; another one would run under emulation, several times slower. */
const PLATFORM = 'linux/amd64'

export interface PullImageInput {
  engine: Engine
  /** `name:tag` or `name@sha256:…`. */
  image: string
  log: (line: string) => void
  signal: AbortSignal
}

/** Pulls an image from its registry. An interrupted pull is gone on with by the next: the engine keeps whole layers.
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

/** What registries and engines say about a name that is not there, or not for us. */
const MISSING = /not found|manifest unknown|does not exist|no matching manifest|pull access denied|name unknown/i

function pullFailed(image: string, cause: unknown): LonghaulError {
  const reason = cause instanceof Error ? cause.message : String(cause)
  const isMissing = isStatus(cause, 404) || MISSING.test(reason)
  return new LonghaulError({
    code: isMissing ? 'Sandbox.ImageMissing' : 'Sandbox.PullFailed',
    message: isMissing ? 'The registry does not have the image' : 'The image could not be pulled',
    details: { image, reason: reason.slice(0, 300) },
    cause,
  })
}
