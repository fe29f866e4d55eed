import type { Engine } from '../engine/engine.ts'
import { listSandboxes } from '../container/list-sandboxes.ts'

/** What a sandbox asks for, and what a host has for all of them. */
export interface Resources {
  cpus: number
  memoryMiB: number
}

/** A sandbox that has its place. */
export interface Held {
  /** Episode and placement: an open that is tried again finds its place. */
  key: string
  request: Resources
  /** Of the container; null while it is being opened. */
  name: string | null
}

interface AdmissionOptions {
  /** What the sandboxes of this host may ask for together. */
  capacity: Resources
  /** Sandboxes that the engine knows to be alive. */
  list: () => Promise<Held[]>
  /** How often the engine is asked at most, and while a sandbox waits at least: others end by their lease or by the reaper, and other
   *  workers of this host open some too. @default 5_000 */
  resyncMs?: number
  /** @default the process's clock */
  now?: () => number
}

interface AdmitInput<T> {
  key: string
  request: Resources
  signal: AbortSignal
  /** Opens the sandbox, once it has its place. */
  open: () => Promise<T>
  /** Goes around the wait where there is one, and tells what is missing. */
  whileWaiting: (wait: () => Promise<void>, why: string) => Promise<void>
}

/**
 * Admits sandboxes while what they ask for fits, first come first served, as a cluster's scheduler does with pods: requests are added
 * up, limits are not. One that asks for more than the whole host has is admitted alone.
 */
export interface Admission {
  admit<T extends { name: string }>(input: AdmitInput<T>): Promise<T>
  /** The sandbox of that name is gone. */
  give(name: string): void
  /** What is held now, after a look at the engine. Where the engine does not answer, as of the last look, and why. */
  look(): Promise<AdmissionLook>
  /** How much of the host is held, from 0; past 1 where it is overbooked. Asks nothing. */
  share(): number
  /** Sandboxes that wait for a place. */
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

  /** What the engine knows counts, except for sandboxes that are being opened: it does not know those yet. */
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
      // It may have been the first, and too large for what the next one needs.
      pump()
    }
    waiting.push(waiter)
    signal.addEventListener('abort', leave, { once: true })
    // An engine that does not answer now is asked again in a moment.
    timer ??= setInterval(() => void resync().catch(() => undefined), resyncMs).unref()
    try {
      await whileWaiting(() => promise, describe(entry.request, capacity, held.size))
    } finally {
      signal.removeEventListener('abort', leave)
    }
  }

  return {
    async admit({ key, request, signal, open, whileWaiting }) {
      // Sandboxes opened before this process count too.
      known ??= resync().catch((error: unknown) => {
        known = null
        throw error
      })
      await known
      // Beside the opening, which does not wait for it.
      if (now() - askedAtMs > resyncMs) void resync().catch(() => undefined)
      signal.throwIfAborted()
      if (!held.has(key)) await take({ key, request, name: null }, { signal, whileWaiting })
      try {
        const opened = await open()
        const entry = held.get(key)
        if (entry !== undefined) entry.name = opened.name
        return opened
      } catch (error) {
        // The next look at the engine finds a container that it created all the same.
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

/** In thousandths of a processor: requests as 0.1 add up to whole ones. */
function sum(requests: readonly Resources[]): Resources {
  return {
    cpus: requests.reduce((total, { cpus }) => total + Math.round(cpus * 1000), 0) / 1000,
    memoryMiB: requests.reduce((total, { memoryMiB }) => total + memoryMiB, 0),
  }
}

function describe(request: Resources, capacity: Resources, sandboxes: number): string {
  return `a place for ${show(request)}: ${sandboxes} sandboxes hold what this host has, ${show(capacity)}`
}

function show({ cpus, memoryMiB }: Resources): string {
  return `${Number(cpus.toFixed(3))} CPU and ${Number((memoryMiB / 1024).toFixed(2))} GiB`
}

/** Sandboxes that hold a place on this machine, whichever worker of the same Temporal namespace opened them. */
export async function listHeld({ engine, namespaceId }: { engine: Engine; namespaceId: string }): Promise<Held[]> {
  const sandboxes = await listSandboxes({ engine })
  return sandboxes.flatMap(({ episode, fence, request, name, state, namespaceId: owners }) =>
    request === null || state === 'ended' || owners !== namespaceId
      ? []
      : [{ key: placeKey(episode, fence), request, name }],
  )
}

/** An episode has one place for each of its placements. */
export function placeKey(episode: string, placement: number): string {
  return `${episode}#${placement}`
}
