import type { SandboxLimits } from '../../../contracts/sandbox.types.ts'
import type { CpuPool } from '../container/cpu-pool.ts'
import type { Engine } from '../engine/engine.ts'
import type { ImageKeeper } from '../images/image-keeper.ts'
import type { RelayPool } from './relay/relay-pool.ts'
import type { RunnerPool } from './runner-pool.ts'
import type { Slots } from '../../../platform/limiter.ts'
import { type DiskWatch, createDiskWatch } from './disk-watch.ts'
import { createKernelWatch } from './kernel-watch.ts'

/** The state that all sandbox operations of one host share. */
export interface SandboxContext {
  engine: Engine
  /** Keeper of the images that are made for agents. */
  keeper: ImageKeeper
  /** Identifies the machine and its boot; written into labels. */
  hostId: string
  hostQueue: string
  /** Identity of the Temporal namespace of the owners; empty if owners are not workflows. */
  namespaceId: string
  /** Limits concurrent container starts, because more make the engine time out. */
  starting: Slots
  /** Limits concurrent grading containers, each of which holds its slot while its tests run. Separate from `starting`: tests that
   *  hang would otherwise keep every sandbox of this host from opening. */
  grading: Slots
  /** How long a grading container may stay silent after its own deadline. */
  gradingSlackMs: number
  runners: RunnerPool
  relays: RelayPool
  cpus: CpuPool
  /** Of agents' containers and grading containers. */
  watch: ContainerWatch
  log(message: string, facts: Record<string, string | number>): void
  /** OCI runtime of this host for recipes that name none. */
  runtime: string | null
  maxLifeMs: number
}

/** Applies the host's runtime unless the recipe names one. */
export function limitsOnHost({ runtime }: SandboxContext, limits: SandboxLimits): SandboxLimits {
  return runtime === null || limits.runtime !== undefined ? limits : { ...limits, runtime }
}

/** Watches what containers take of the host: of its disk and of its kernel's stock. */
interface ContainerWatch extends Pick<DiskWatch, 'measure' | 'requireWithin' | 'wasCrowdedOut' | 'dispose'> {
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
