import { Duplex } from 'node:stream'
import type { WebSocket } from './cluster.ts'

/** Channels of `v4.channel.k8s.io` and later, given in the first byte of each message. */
const [STDIN, STDOUT, STDERR, STATUS] = [0, 1, 2, 3]
/** Servers read a message as a whole, so messages are limited. */
const MAX_MESSAGE = 32 * 1024
/** Bytes that may wait to be sent before writers wait too. */
const MAX_UNSENT = 1024 * 1024
/** A web socket cannot be paused. Input that arrives while the reader is paused is buffered up to this limit; beyond it the stream
 *  is destroyed. */
const MAX_UNREAD = 64 * 1024 * 1024
const LOOK_MS = 5

/** Input and output of a program that a kubelet started. It produces the multiplexed format of Docker's streams
 *  (`createDemultiplexer`), so that clients of runners, relays and graders work with both. */
export class ExecStream extends Duplex {
  readonly #socket: WebSocket
  /** Exit code of the program; null while it runs, and if the connection broke before the kubelet reported the code. */
  exitCode: number | null = null

  private constructor(socket: WebSocket) {
    super({ allowHalfOpen: false })
    this.#socket = socket
    socket.addEventListener('message', (event) => this.#receive(event))
    // Received data can still be read. The stream is destroyed after its end.
    socket.addEventListener('close', () => this.push(null))
    socket.addEventListener('error', () => undefined)
  }

  /** Rejects if the server refuses, without the server's reason. */
  static open(socket: WebSocket, timeoutMs: number): Promise<ExecStream> {
    socket.binaryType = 'arraybuffer'
    const stream = new ExecStream(socket)
    const { promise, resolve, reject } = Promise.withResolvers<ExecStream>()
    const timer = setTimeout(() => reject(notOpened(`no answer within ${timeoutMs} ms`)), timeoutMs)
    socket.addEventListener('open', () => resolve(stream))
    socket.addEventListener('error', (event) => reject(notOpened(event.message)))
    socket.addEventListener('close', () => reject(notOpened('the connection was closed')))
    return promise
      .catch((error: unknown) => {
        stream.destroy()
        throw error
      })
      .finally(() => clearTimeout(timer))
  }

  #receive({ data }: { data?: unknown }): void {
    const message = Buffer.from(data as ArrayBuffer)
    const channel = message[0]
    const payload = message.subarray(1)
    if (channel === STATUS) this.exitCode = exitCodeOf(payload.toString())
    if ((channel !== STDOUT && channel !== STDERR) || payload.length === 0 || this.destroyed) return
    const header = Buffer.alloc(8)
    header[0] = channel
    header.writeUInt32BE(payload.length, 4)
    this.push(Buffer.concat([header, payload]))
    if (this.readableLength > MAX_UNREAD) this.destroy(new Error('the stream was not read'))
  }

  override _read(): void {
    // Data is pushed as it arrives.
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, callback: (error?: Error | null) => void): void {
    if (this.#socket.readyState !== this.#socket.OPEN) return callback(new Error('the stream is closed'))
    for (let at = 0; at < chunk.length; at += MAX_MESSAGE) {
      this.#socket.send(Buffer.concat([Buffer.of(STDIN), chunk.subarray(at, at + MAX_MESSAGE)]))
    }
    const whenSent = (): void => {
      if (this.#socket.bufferedAmount <= MAX_UNSENT || this.destroyed) callback()
      else setTimeout(whenSent, LOOK_MS)
    }
    whenSent()
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#socket.close()
    callback(error)
  }
}

/** Parses the status message: `Success`, or a failure whose causes contain the program's exit code. */
function exitCodeOf(text: string): number | null {
  try {
    const { status, details } = JSON.parse(text) as {
      status?: string
      details?: { causes?: { reason?: string; message?: string }[] }
    }
    if (status === 'Success') return 0
    const said = details?.causes?.find(({ reason }) => reason === 'ExitCode')?.message
    return said === undefined ? null : Number(said)
  } catch {
    return null
  }
}

function notOpened(why: string): Error {
  return Object.assign(new Error(`the exec was not opened: ${why}`), { code: 'ECONNRESET' })
}
