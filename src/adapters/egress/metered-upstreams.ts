import type { Socket } from 'node:net'
import type { Duplex, Readable } from 'node:stream'
import type { NetworkUse } from '../../contracts/sandbox.types.ts'
import { EgressRefused, openUpstream, type UpstreamOptions } from './open-upstream.ts'

export interface EgressLimits {
  /** Limit on the bytes of one sandbox in both directions; a small piece counts as one KiB. @default 2 GiB, enough for one or two
   *  large wheels */
  totalBytes: number
  /** Limit on open connections of one sandbox, counting those to the proxy and those from it. @default 64 */
  connections: number
  /** Maximum duration of a connection. @default 10 minutes */
  connectionMs: number
  /** Maximum silence on a connection. @default 60 s */
  idleMs: number
}

export const EGRESS_LIMITS: EgressLimits = {
  totalBytes: 2 * 1024 ** 3,
  connections: 64,
  connectionMs: 600_000,
  idleMs: 60_000,
}

/** Minimum cost of a piece of data, because the worker spends the same effort on a byte as on a kilobyte. */
export const PIECE_BYTES = 1024

/** The cost of a piece beyond its own bytes. */
export function shortageOf(piece: Buffer): number {
  return Math.max(0, PIECE_BYTES - piece.length)
}

/** Names in a record are text from the agent, so they are limited in number and length. */
const MAX_NAMES = 10
const MAX_NAME = 100

export type Spend = (bytes: number) => void

/** Connections of one sandbox to allowed hosts, limited and counted. */
export class MeteredUpstreams {
  readonly #options: UpstreamOptions
  readonly #limits: EgressLimits
  readonly #open = new Set<Socket>()
  /** Number of connections that are being opened. */
  #opening = 0
  #use = noUse()
  #totalBytes = 0

  constructor(options: UpstreamOptions, limits: EgressLimits) {
    this.#options = options
    this.#limits = limits
  }

  /** @throws EgressRefused if the host is not allowed or a limit is exhausted */
  async open(host: string, port: number): Promise<Socket> {
    const { totalBytes, connections } = this.#limits
    if (this.#totalBytes > totalBytes) throw new EgressRefused(`more than ${totalBytes} bytes in all`)
    if (this.#open.size + this.#opening >= connections) {
      throw new EgressRefused(`more than ${connections} connections at once`)
    }
    this.#opening += 1
    try {
      const upstream = await openUpstream({ host, port }, this.#options)
      this.#open.add(upstream)
      upstream.on('close', () => this.#open.delete(upstream))
      return upstream
    } finally {
      this.#opening -= 1
    }
  }

  /** Counts and limits both directions. When one side ends, the other is ended. `sent` yields the client's bytes.
   *  @returns a function that charges further bytes to the sandbox's volume */
  join(client: Duplex, upstream: Socket, sent: Readable): Spend {
    this.#use.opened += 1
    const stop = (): void => {
      client.destroy()
      upstream.destroy()
    }
    const { connectionMs, idleMs, totalBytes } = this.#limits
    let timer = setTimeout(stop, connectionMs)
    const spend = (bytes: number): void => {
      this.#totalBytes += bytes
      if (this.#totalBytes > totalBytes) stop()
    }
    const count = (chunk: Buffer): void => {
      this.#use.bytes += chunk.length
      spend(chunk.length + shortageOf(chunk))
    }
    upstream.setTimeout(idleMs, stop)
    upstream.on('data', count)
    sent.on('data', count)
    upstream.on('error', stop)
    client.on('error', stop)
    upstream.on('close', () => {
      clearTimeout(timer)
      // The client may still read what has arrived, and may never close its own side.
      if (!client.destroyed) timer = setTimeout(stop, idleMs)
    })
    client.on('close', () => {
      clearTimeout(timer)
      stop()
    })
    // The client disconnected while its upstream was being opened, so its end event has already passed.
    if (client.destroyed || upstream.destroyed) stop()
    return spend
  }

  /** @returns the name in a form that is safe to log */
  countRefusal(name: string): string {
    this.#use.refused += 1
    const shown = name.slice(0, MAX_NAME)
    const { refusedHosts } = this.#use
    if (refusedHosts.length < MAX_NAMES && !refusedHosts.includes(shown)) refusedHosts.push(shown)
    return shown
  }

  /** Returns the usage since the last call. */
  takeUse(): NetworkUse {
    const taken = this.#use
    this.#use = noUse()
    return taken
  }

  close(): void {
    for (const upstream of this.#open) upstream.destroy()
  }
}

function noUse(): NetworkUse {
  return { opened: 0, refused: 0, bytes: 0, refusedHosts: [] }
}
