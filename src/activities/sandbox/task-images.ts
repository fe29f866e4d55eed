import { LonghaulError } from '../../contracts/errors.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { synthesizeTask } from '../../adapters/datasets/synthetic/synthesize.ts'
import { ensureBaseImage } from '../../adapters/docker/base-image.ts'
import type { Engine } from '../../adapters/docker/engine.ts'
import { buildTaskImage, imageExists } from '../../adapters/docker/images.ts'
import type { EnsureImage } from './open-sandbox.ts'

export interface TaskImagesInput {
  engine: Engine
  /** Where the base image's archive is cached. */
  cacheDir: string
  log(line: string): void
}

/**
 * Makes sure that a host has a task's image. A synthesised task is rebuilt from its seed on any host; other images must have
 * been pulled. Siblings of a group ask at once: the first builds, the others wait for it.
 */
export function createImageProvider({ engine, cacheDir, log }: TaskImagesInput): EnsureImage {
  const known = new Map<string, Promise<void>>()
  return (task) => {
    const pending = known.get(task.image)
    if (pending !== undefined) return pending
    const made = makeImage({ engine, cacheDir, log }, task)
    known.set(task.image, made)
    // A failure is not remembered: the next attempt tries again.
    made.catch(() => known.delete(task.image))
    return made
  }
}

async function makeImage({ engine, cacheDir, log }: TaskImagesInput, task: Task): Promise<void> {
  if (await imageExists({ engine, image: task.image })) return
  if (task.synthetic === null) {
    throw new LonghaulError({
      code: 'Sandbox.ImageMissing',
      message: `Expected image ${task.image} on this host; pull it first`,
      details: { task: task.taskId },
    })
  }
  const base = await ensureBaseImage({ engine, cacheDir, log })
  const { repoTar } = synthesizeTask(task.synthetic)
  await buildTaskImage({ engine, base: base.tag, tag: task.image, repoTar: await repoTar(), labels: {} })
}
