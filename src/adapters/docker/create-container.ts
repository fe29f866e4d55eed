import { setTimeout as sleep } from 'node:timers/promises'

import type { Container, ContainerCreateOptions, ContainerInspectInfo } from 'dockerode'

import { LonghaulError } from '../../contracts/errors.ts'
import { isStatus } from './engine-errors.ts'
import type { Engine } from './engine.ts'
import { LABELS } from './labels.ts'

export interface CreateContainerInput {
  engine: Engine
  spec: ContainerCreateOptions
}

export interface CreatedContainer {
  container: Container
  /** Present where an earlier attempt had created it already. */
  existing: ContainerInspectInfo | null
}

/** Creates a container or adopts the one that an earlier attempt created under the same deterministic name.
 *  @throws LonghaulError `Sandbox.ImageMissing`; `Sandbox.JournalConflict` where the name belongs to something else */
export async function createOrAdopt({ engine, spec }: CreateContainerInput): Promise<CreatedContainer> {
  const name = spec.name ?? ''
  for (let attempt = 1; ; attempt += 1) {
    try {
      return { container: await engine.docker.createContainer(spec), existing: null }
    } catch (error) {
      if (isStatus(error, 404)) throw imageMissing(spec.Image ?? '', error)
      if (!isStatus(error, 409)) throw error
      const container = engine.docker.getContainer(name)
      const existing = await container.inspect().catch((missing: unknown) => {
        if (isStatus(missing, 404)) return null
        throw missing
      })
      // It went away between the two requests, or another attempt reserved the name and is still creating it.
      if (existing === null && attempt >= MAX_ATTEMPTS) throw error
      if (existing === null) {
        await sleep(RETRY_MS)
        continue
      }
      requireSameOwner(name, spec.Labels ?? {}, existing.Config.Labels)
      return { container: engine.docker.getContainer(existing.Id), existing }
    }
  }
}

const MAX_ATTEMPTS = 50
const RETRY_MS = 100

const IDENTITY_LABELS = [LABELS.project, LABELS.run, LABELS.episode, LABELS.role, LABELS.fence, LABELS.image]

function requireSameOwner(name: string, wanted: Record<string, string>, found: Record<string, string>): void {
  const differing = IDENTITY_LABELS.find((label) => wanted[label] !== found[label])
  if (differing === undefined) return
  throw new LonghaulError({
    code: 'Sandbox.JournalConflict',
    message: 'A container of this name belongs to something else',
    details: { name, label: differing, wanted: wanted[differing] ?? null, found: found[differing] ?? null },
  })
}

function imageMissing(image: string, cause: unknown): LonghaulError {
  return new LonghaulError({
    code: 'Sandbox.ImageMissing',
    message: 'The engine does not have the image',
    details: { image },
    cause,
  })
}
