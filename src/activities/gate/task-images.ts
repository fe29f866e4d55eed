import { synthesizeTask } from '../../adapters/datasets/synthetic/synthesize.ts'
import { ensureBaseImage } from '../../adapters/docker/images/base-image.ts'
import type { Engine } from '../../adapters/docker/engine/engine.ts'
import { throughEngine } from '../../adapters/docker/engine/engine-errors.ts'
import { createImageKeeper, type ImageKeeper } from '../../adapters/docker/images/image-keeper.ts'
import { buildTaskImage, imageExists, pullImage, registryHasImage } from '../../adapters/docker/images/images.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import type { ImageFinder } from './check-images.ts'
import type { EnsureImage } from '../episode/open-sandbox.ts'

export interface TaskImagesInput {
  engine: Engine
  /** Directory for the base image's archive, locks and times of last use. */
  cacheDir: string
  log(line: string): void
  /** @default a separate one */
  keeper?: ImageKeeper
}

/**
 * Ensures that a host has a task's image: a synthesised task is rebuilt from its seed on any host, other images are pulled. Siblings of
 * a group request it concurrently; one of them makes it, the others wait.
 */
export function createImageProvider({ engine, cacheDir, log, keeper }: TaskImagesInput): EnsureImage {
  const images = keeper ?? createImageKeeper({ engine, cacheDir })
  return (task, signal) =>
    throughEngine({ doing: 'preparing an image', details: { image: task.image } }, () =>
      images.ensure({
        image: task.image,
        make: (stopped) => makeImage({ engine, cacheDir, log }, task, stopped),
        signal,
      }),
    )
}

/** Describes where a host's images come from, without fetching any. */
export function createImageFinder({ engine }: Pick<TaskImagesInput, 'engine'>): ImageFinder {
  return {
    isHere: (image) => imageExists({ engine, image }),
    isInRegistry: (image, signal) => registryHasImage({ engine, image, signal }),
  }
}

async function makeImage({ engine, cacheDir, log }: TaskImagesInput, task: Task, signal: AbortSignal): Promise<void> {
  if (task.synthetic === null) return pullImage({ engine, image: task.image, log, signal })
  const base = await ensureBaseImage({ engine, cacheDir, log, signal })
  const { repoTar } = synthesizeTask(task.synthetic)
  await buildTaskImage({ engine, base: base.tag, tag: task.image, repoTar: await repoTar(), labels: {} })
}
