import type { SandboxLimits } from '../../../contracts/sandbox.types.ts'
import type { CpuPool } from '../container/cpu-pool.ts'
import type { DiskWatch } from './disk-watch.ts'
import type { Engine } from '../engine/engine.ts'
import type { ImageKeeper } from '../images/image-keeper.ts'
import type { RelayPool } from './relay/relay-pool.ts'
import type { RunnerPool } from './runner-pool.ts'
import type { Slots } from '../../../platform/limiter.ts'

/** What the operations of one host share. */
export interface SandboxContext {
  engine: Engine
  /** Of the images that are made for agents. */
  keeper: ImageKeeper
  /** Name of the machine and its start, written into labels. */
  hostId: string
  hostQueue: string
  /** Identity of the Temporal namespace that owners live in; empty where owners are no workflows. */
  namespaceId: string
  /** Containers that start at once: more make engines time out, not faster. */
  starting: Slots
  /** Containers that grade at once, each for as long as its tests run. Not those of `starting`: tests that never end would keep
   *  every sandbox of this host from being opened. */
  grading: Slots
  /** How long a grading container may be silent after its own deadline. */
  gradingSlackMs: number
  runners: RunnerPool
  relays: RelayPool
  cpus: CpuPool
  /** Of agents' containers and of those that grade. */
  disks: DiskWatch
  log(message: string, facts: Record<string, string | number>): void
  /** OCI runtime of this host where a recipe names none. */
  runtime: string | null
  maxLifeMs: number
}

/** A recipe's own choice of runtime comes before the host's. */
export function limitsOnHost({ runtime }: SandboxContext, limits: SandboxLimits): SandboxLimits {
  return runtime === null || limits.runtime !== undefined ? limits : { ...limits, runtime }
}
