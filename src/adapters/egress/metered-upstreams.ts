import type { Socket } from 'node:net'
import type { Duplex, Readable } from 'node:stream'
import type { NetworkUse } from '../../contracts/sandbox.types.ts'
import { EgressRefused, openUpstream, type UpstreamOptions } from './open-upstream.ts'

export interface EgressLimits {
  /** Bytes of one sandbox in both directions, small pieces as one KiB each. @default 2 GiB: a big wheel or two */
  totalBytes: number
  /** Open connections of one sandbox, to the proxy and from it. @default 64 */
  connections: number
  /** One connection, from its start. @default 10 minutes */
  connectionMs: number
  /** Silence on a connection. @default 60 s */
  idleMs: number
}

export const EGRESS_LIMITS: EgressLimits = {
  totalBytes: 2 * 1024 ** 3,
  connections: 64,
  connectionMs: 600_000,
  idleMs: 60_000,
}

/** What a piece of data costs at least: the worker reads, counts and writes a byte as it does a kilobyte. */
export const PIECE_BYTES = 1024

/** What a piece costs beside its own bytes. */
export function shortageOf(piece: Buffer): number {
  return Math.max(0, PIECE_BYTES - piece.length)
}

/** Names in a record are the agent's text: few and short. */
const MAX_NAMES = 10
const MAX_NAME = 100

export type Spend = (bytes: number) => void

/** What one sandbox has to do with the world: connections to allowed hosts, bounded and counted. */
export class MeteredUpstreams {
  readonly #options: UpstreamOptions
  readonly #limits: EgressLimits
  readonly #open = new Set<Socket>()
  /** Connections that are being opened. */
  #opening = 0
  #use = noUse()
  #totalBytes = 0

  constructor(options: UpstreamOptions, limits: EgressLimits) {
    this.#options = options
    this.#limits = limits
  }

  /** @throws EgressRefused where the host is not allowed, or a limit is used up */
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

  /** Counts and bounds both directions; when one side ends, the other is ended. `sent`: where the client's bytes come from.
   *  @returns what takes more from the sandbox's volume */
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
      // The client may still read what came, and may never close its own side.
      if (!client.destroyed) timer = setTimeout(stop, idleMs)
    })
    client.on('close', () => {
      clearTimeout(timer)
      stop()
    })
    // The client left while its upstream was being opened; its end event came earlier.
    if (client.destroyed || upstream.destroyed) stop()
    return spend
  }

  /** @returns the name as it may be shown */
  countRefusal(name: string): string {
    this.#use.refused += 1
    const shown = name.slice(0, MAX_NAME)
    const { refusedHosts } = this.#use
    if (refusedHosts.length < MAX_NAMES && !refusedHosts.includes(shown)) refusedHosts.push(shown)
    return shown
  }

  /** What was counted since it was last asked. */
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
