import type { Engine } from '../engine/engine.ts'
import { createDiskWatch, type DiskWatch } from './disk-watch.ts'
import { createKernelWatch } from './kernel-watch.ts'

/** Watches what containers take of the host: of its disk and of its kernel's stock. */
export interface ContainerWatch extends Pick<DiskWatch, 'measure' | 'requireWithin' | 'wasCrowdedOut' | 'dispose'> {
  /** Starts to watch a container that runs. A second call asks the engine nothing. Resolves when both watches have answered, so that a
   *  container that is removed afterwards is forgotten by both. */
  add(name: string): Promise<void>
  remove(name: string): void
}

interface ContainerWatchOptions {
  engine: Engine
  log(message: string, facts: Record<string, string | number>): void
}

export function createContainerWatch({ engine, log }: ContainerWatchOptions): ContainerWatch {
  const disks = createDiskWatch({ engine, log })
  const kernel = createKernelWatch({ log })
  return {
    measure: disks.measure,
    requireWithin: disks.requireWithin,
    wasCrowdedOut: disks.wasCrowdedOut,
    async add(name) {
      if (disks.knows(name) && kernel.knows(name)) return
      const facts = await engine.docker.getContainer(name).inspect()
      const added = await Promise.allSettled([disks.add(name, facts), kernel.add(name, facts)])
      for (const one of added) if (one.status === 'rejected') throw one.reason
    },
    remove(name) {
      disks.remove(name)
      kernel.remove(name)
    },
    dispose() {
      disks.dispose()
      kernel.dispose()
    },
  }
}
