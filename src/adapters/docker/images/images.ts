import { createHash } from 'node:crypto'

import { buildLabels, WITHOUT_BUILD_LABELS } from './build-container.ts'
import { ignoreGone, isStatus } from '../engine/engine-errors.ts'
import type { Engine } from '../engine/engine.ts'
import { createSlots } from '../../../platform/limiter.ts'

/** More commits at once make the engine slower, not faster (measured on 2 cores). */
const buildSlots = createSlots(4)

export interface ImageInput {
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

export interface ImageFacts {
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

export interface BuildTaskImageInput {
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

export interface BuildTaskImageResult {
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
  const name = `lh-build-${createHash('sha256').update(tag).digest('hex').slice(0, 16)}`
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
