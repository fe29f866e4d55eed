import type { Engine } from '../engine/engine.ts'
import { listSandboxes } from '../container/list-sandboxes.ts'

/** The resources that a sandbox requests, or that a host offers to all of its sandboxes. */
export interface Resources {
  cpus: number
  memoryMiB: number
}

/** A sandbox that occupies a place on the host. */
export interface Held {
  /** Episode and placement, so that a retried open finds the place it already has. */
  key: string
  request: Resources
  /** Container name; null while the container is being opened. */
  name: string | null
}

interface AdmissionOptions {
  /** Resources that the sandboxes of this host may request in total. */
  capacity: Resources
  /** Lists the sandboxes that the engine reports as alive. */
  list: () => Promise<Held[]>
  /** Shortest interval between two queries of the engine, and the polling interval while a sandbox waits. Sandboxes also end by
   *  their lease or by the reaper, and other workers of this host open sandboxes too, so the local state alone is not enough.
   *  @default 5_000 */
  resyncMs?: number
  /** Milliseconds. @default the process's clock */
  now?: () => number
}

interface AdmitInput<T> {
  key: string
  request: Resources
  signal: AbortSignal
  /** Opens the sandbox after it has been admitted. */
  open: () => Promise<T>
  /** Wraps the wait, if there is one. `why` names the missing resources. */
  whileWaiting: (wait: () => Promise<void>, why: string) => Promise<void>
}

/**
 * Admits sandboxes, first come first served, while the sum of their requests fits the capacity. As with pods in a cluster's scheduler,
 * requests are summed and limits are not. A sandbox that requests more than the whole host has is admitted only when the host is empty.
 */
export interface Admission {
  admit<T extends { name: string }>(input: AdmitInput<T>): Promise<T>
  /** Releases the place of the sandbox with that container name. */
  give(name: string): void
  /** Queries the engine and returns the places that are occupied. If the engine does not answer, returns the last known state and
   *  the reason. */
  look(): Promise<AdmissionLook>
  /** The occupied fraction of the host: 0 is empty, more than 1 is overbooked. Does not query the engine. */
  share(): number
  /** Number of sandboxes that wait for a place. */
  waiting(): number
  dispose(): void
}

export interface AdmissionLook {
  sandboxes: number
  requested: Resources
  capacity: Resources
  trouble: string | null
}

interface Waiter {
  entry: Held
  admitted: () => void
}

export function createAdmission({
  capacity,
  list,
  resyncMs = 5_000,
  now = () => performance.now(),
}: AdmissionOptions): Admission {
  const held = new Map<string, Held>()
  const waiting: Waiter[] = []
  let timer: NodeJS.Timeout | null = null
  let known: Promise<void> | null = null
  let askedAtMs = Number.NEGATIVE_INFINITY

  const pump = (): void => {
    for (let next = waiting[0]; next !== undefined && fits(next.entry.request); next = waiting[0]) {
      waiting.shift()
      held.set(next.entry.key, next.entry)
      next.admitted()
    }
    if (waiting.length === 0 && timer !== null) {
      clearInterval(timer)
      timer = null
    }
  }

  const fits = (request: Resources): boolean => {
    if (held.size === 0) return true
    const asked = sum([...held.values()].map((entry) => entry.request).concat(request))
    return asked.cpus <= capacity.cpus && asked.memoryMiB <= capacity.memoryMiB
  }

  /** The engine's list replaces the local state, except for sandboxes that are being opened: the engine does not list those yet. */
  const resync = async (): Promise<void> => {
    askedAtMs = now()
    const alive = await list()
    const names = new Set(alive.map(({ name }) => name))
    for (const [key, { name }] of held) if (name !== null && !names.has(name)) held.delete(key)
    for (const entry of alive) if (!held.has(entry.key)) held.set(entry.key, entry)
    pump()
  }

  const take = async (entry: Held, { signal, whileWaiting }: Pick<AdmitInput<unknown>, 'signal' | 'whileWaiting'>) => {
    if (waiting.length === 0 && fits(entry.request)) {
      held.set(entry.key, entry)
      return
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const waiter: Waiter = { entry, admitted: resolve }
    const leave = (): void => {
      const place = waiting.indexOf(waiter)
      if (place < 0) return
      waiting.splice(place, 1)
      reject(signal.reason as Error)
      // The cancelled request may have been first in the queue and too large to admit, while the next one fits.
      pump()
    }
    waiting.push(waiter)
    signal.addEventListener('abort', leave, { once: true })
    // If the engine does not answer, the next tick of the interval asks again.
    timer ??= setInterval(() => void resync().catch(() => undefined), resyncMs).unref()
    try {
      await whileWaiting(() => promise, describe(entry.request, capacity, held.size))
    } finally {
      signal.removeEventListener('abort', leave)
    }
  }

  return {
    async admit({ key, request, signal, open, whileWaiting }) {
      // Sandboxes that were opened before this process started count too.
      known ??= resync().catch((error: unknown) => {
        known = null
        throw error
      })
      await known
      // Not awaited: opening a sandbox does not depend on this refresh.
      if (now() - askedAtMs > resyncMs) void resync().catch(() => undefined)
      signal.throwIfAborted()
      if (!held.has(key)) await take({ key, request, name: null }, { signal, whileWaiting })
      try {
        const opened = await open()
        const entry = held.get(key)
        if (entry !== undefined) entry.name = opened.name
        return opened
      } catch (error) {
        // If the engine created a container in spite of the error, the next resync lists it.
        held.delete(key)
        pump()
        throw error
      }
    },
    give(name) {
      for (const [key, entry] of held) if (entry.name === name) held.delete(key)
      pump()
    },
    async look() {
      const trouble = await resync().then(
        () => null,
        (error: unknown) => (error instanceof Error ? error.message : String(error)),
      )
      const requested = sum([...held.values()].map(({ request }) => request))
      return { sandboxes: held.size, requested, capacity, trouble }
    },
    share() {
      const { cpus, memoryMiB } = sum([...held.values()].map(({ request }) => request))
      return Math.max(cpus / capacity.cpus, memoryMiB / capacity.memoryMiB)
    },
    waiting: () => waiting.length,
    dispose() {
      if (timer !== null) clearInterval(timer)
    },
  }
}

/** Sums thousandths of a processor, because ten requests of 0.1 must add up to exactly 1. */
function sum(requests: readonly Resources[]): Resources {
  return {
    cpus: requests.reduce((total, { cpus }) => total + Math.round(cpus * 1000), 0) / 1000,
    memoryMiB: requests.reduce((total, { memoryMiB }) => total + memoryMiB, 0),
  }
}

function describe(request: Resources, capacity: Resources, sandboxes: number): string {
  return `a place for ${show(request)}: ${sandboxes} sandboxes occupy this host’s ${show(capacity)}`
}

function show({ cpus, memoryMiB }: Resources): string {
  return `${Number(cpus.toFixed(3))} CPU and ${Number((memoryMiB / 1024).toFixed(2))} GiB`
}

/** Lists the sandboxes that occupy a place on this machine, including those opened by other workers of the same Temporal namespace. */
export async function listHeld({ engine, namespaceId }: { engine: Engine; namespaceId: string }): Promise<Held[]> {
  const sandboxes = await listSandboxes({ engine })
  return sandboxes.flatMap(({ episode, fence, request, name, state, namespaceId: owners }) =>
    request === null || state === 'ended' || owners !== namespaceId
      ? []
      : [{ key: placeKey(episode, fence), request, name }],
  )
}

/** Each placement of an episode has its own place. */
export function placeKey(episode: string, placement: number): string {
  return `${episode}#${placement}`
}
