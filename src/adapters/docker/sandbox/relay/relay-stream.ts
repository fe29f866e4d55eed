import { Duplex } from 'node:stream'

import { createDemultiplexer } from '../../engine/exec-stream.ts'

/** Carries connections of programs in the sandbox as frames over the stream of the sandbox's relay (`relay.pl`). */
export interface RelayStream {
  /** Resolves when the relay accepts connections. */
  readonly ready: Promise<void>
  readonly isOpen: boolean
  close(reason?: string): void
}

export interface RelayStreamInput {
  /** Stream of the exec in which the relay runs. */
  socket: Duplex
  onConnection(connection: Duplex): void
}

const HEADER = 9
/** The relay reads at most this many bytes at once, so it never sends a longer frame. */
const MAX_PAYLOAD = 32 * 1024
/** Rate limit for new connections. Each one costs the worker a parser and its timers. */
const OPENINGS = { burst: 256, aSecond: 64 }
/** Rate limit for frames. A flood of empty frames would keep the worker from other work. At this rate, full frames carry 320 MB per
 *  second. */
const FRAMES = { burst: 10_000, aSecond: 10_000 }
/** Limit on bytes that wait for the relay to read them, on top of the data of open connections. */
const MAX_UNREAD = 16 * 1024 * 1024

export function createRelayStream({ socket, onConnection }: RelayStreamInput): RelayStream {
  const connections = new Map<number, RelayedConnection>()
  const unread = new Set<RelayedConnection>()
  const { promise: ready, resolve, reject } = Promise.withResolvers<void>()
  ready.catch(() => undefined)
  let open = true
  let complaint = ''
  let input: Buffer = Buffer.alloc(0)
  const takeOpening = createAllowance(OPENINGS)
  const takeFrame = createAllowance(FRAMES)
  let slowedDown: NodeJS.Timeout | null = null

  const end = (reason: string): void => {
    if (!open) return
    open = false
    if (slowedDown !== null) clearTimeout(slowedDown)
    socket.destroy()
    reject(new Error(complaint === '' ? reason : complaint.trim()))
    for (const connection of connections.values()) connection.destroy()
    connections.clear()
  }
  const send = (kind: string, id: number, payload: Buffer, done: () => void): void => {
    if (!open) return done()
    const header = Buffer.alloc(HEADER)
    header.write(kind, 'latin1')
    header.writeUInt32BE(id, 1)
    header.writeUInt32BE(payload.length, 5)
    socket.write(Buffer.concat([header, payload]), () => done())
    if (socket.writableLength > MAX_UNREAD) end('the relay does not read')
  }
  const readOn = (): void => {
    if (unread.size === 0 && slowedDown === null) socket.resume()
  }
  const slowDown = (frames: number): void => {
    if (slowedDown !== null || !open) return
    socket.pause()
    slowedDown = setTimeout(
      () => {
        slowedDown = null
        readOn()
      },
      (1000 * frames) / FRAMES.aSecond,
    )
  }
  const wire: Wire = {
    send,
    forget: (id) => connections.delete(id),
    // Pauses the whole stream, because all connections share it: one that is not read blocks the others.
    hold(connection) {
      unread.add(connection)
      socket.pause()
    },
    release(connection) {
      if (unread.delete(connection)) readOn()
    },
  }
  const handle = (kind: string, id: number, payload: Buffer): void => {
    if (kind === 'R') return resolve()
    if (kind === 'O') {
      if (connections.has(id)) return end('the relay sent an invalid frame')
      if (takeOpening() < 0) return end('the relay opened connections too fast')
      const connection = new RelayedConnection(id, wire)
      connections.set(id, connection)
      return onConnection(connection)
    }
    const connection = connections.get(id)
    if (kind === 'D') connection?.receive(payload)
    else if (kind === 'F') connection?.receive(null)
    else if (kind === 'C') connection?.leave()
    else end('the relay sent an invalid frame')
  }
  const demultiplex = createDemultiplexer((kind, payload) => {
    // Each chunk from the engine counts too, because a relay may write its bytes one by one.
    const left = takeFrame()
    if (left < 0) slowDown(-left)
    if (kind === 'stderr') {
      complaint = (complaint + payload.subarray(-500).toString()).slice(-500)
      return
    }
    input = Buffer.concat([input, payload])
    while (input.length >= HEADER) {
      const size = input.readUInt32BE(5)
      if (size > MAX_PAYLOAD) return end('the relay sent an invalid frame')
      if (!open || input.length < HEADER + size) return
      const frame = input
      takeFrame()
      input = input.subarray(HEADER + size)
      handle(frame.toString('latin1', 0, 1), frame.readUInt32BE(1), frame.subarray(HEADER, HEADER + size))
    }
  })
  socket.on('data', demultiplex)
  socket.on('error', (error) => end(error.message))
  socket.on('end', () => end('the relay has ended'))
  socket.on('close', () => end('the stream of the relay was closed'))

  return {
    ready,
    get isOpen() {
      return open
    },
    close: (reason = 'closed by us') => end(reason),
  }
}

/** Creates a token bucket: `burst` tokens that refill with time. The returned function takes one token.
 *  @returns how many tokens are left, below 0 if none was available */
function createAllowance({ burst, aSecond }: { burst: number; aSecond: number }): () => number {
  let [left, countedAt] = [burst, performance.now()]
  return () => {
    const now = performance.now()
    left = Math.min(burst, left + ((now - countedAt) / 1000) * aSecond) - 1
    countedAt = now
    return left
  }
}

interface Wire {
  send(kind: string, id: number, payload: Buffer, done: () => void): void
  forget(id: number): void
  hold(connection: RelayedConnection): void
  release(connection: RelayedConnection): void
}

class RelayedConnection extends Duplex {
  readonly #id: number
  readonly #wire: Wire
  #isGone = false

  constructor(id: number, wire: Wire) {
    super({ allowHalfOpen: true })
    this.#id = id
    this.#wire = wire
  }

  /** Null signals that the program will send no more data. */
  receive(payload: Buffer | null): void {
    if (!this.push(payload) && payload !== null) this.#wire.hold(this)
  }

  /** The program has closed the connection, so no close frame is sent to it. */
  leave(): void {
    this.#isGone = true
    this.destroy()
  }

  override _read(): void {
    this.#wire.release(this)
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, callback: () => void): void {
    this.#wire.send('D', this.#id, chunk, callback)
  }

  override _final(callback: () => void): void {
    this.#wire.send('F', this.#id, Buffer.alloc(0), callback)
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#wire.release(this)
    this.#wire.forget(this.#id)
    if (!this.#isGone) this.#wire.send('C', this.#id, Buffer.alloc(0), () => undefined)
    callback(error)
  }
}
