/** A machine that runs sandboxes, as its workflow keeps it, as its worker reports it and as operators see it. */

/** Which machine serves under the name of a host. Two that differ in either part are two machines. */
export interface HostHolder {
  /** Pinned task queue: host id and boot id. */
  queue: string
  /** Of the container engine: two engines under one kernel have equal boot ids. */
  engine: string
}

/** Present while a host takes no work. */
export interface HostDrain {
  /** ISO time. */
  since: string
  /** Open episodes are placed on other hosts and replayed there. */
  moving: boolean
  /** ISO time at which they begin to move; null: they play to their end here. */
  moveAt: string | null
  /** As it was ordered, so that the same order again is known; absent where a control worker of an earlier version took it. */
  graceMs?: number | null
}

/** What the workflow of a host keeps, also in its memo, where clients and workers read it without a control worker. */
export interface HostState {
  holder: HostHolder
  drain: HostDrain | null
}

export interface HostInput extends HostState {
  host: string
}

export interface DrainRequest {
  /** How long open episodes may play on here: 0, they move at once; null: to their end. */
  graceMs: number | null
}

/** What sandboxes may ask for together; null where the engine does not say. */
export interface HostResources {
  cpus: number
  memoryMiB: number | null
}

/** What the worker of a host reports in its heartbeats. */
export interface HostFacts {
  /** ISO time of the worker's start. */
  since: string
  /** Whether it takes work, by what it has read of its state last. */
  takesWork: boolean
  /** Sandboxes of episodes that are open or being opened. */
  sandboxes: number
  /** Containers of gradings and gates. */
  gradings: number
  requested: HostResources
  capacity: HostResources
  /** Why the engine could not be asked; the counts are then those of the last look. */
  trouble: string | null
}
