import { Duplex } from 'node:stream'
import type { WebSocket } from './cluster.ts'

/** Channels of `v4.channel.k8s.io` and later: the first byte of each message. */
const [STDIN, STDOUT, STDERR, STATUS] = [0, 1, 2, 3]
/** Servers read a message whole. */
const MAX_MESSAGE = 32 * 1024
/** What may wait to be sent before a writer waits too. */
const MAX_UNSENT = 1024 * 1024
/** A web socket cannot be paused: what comes while its reader is paused is kept up to here, and the stream then ends. */
const MAX_UNREAD = 64 * 1024 * 1024
const LOOK_MS = 5

/** Input and output of a program that a kubelet started. It reads as the streams of Docker's engine do (`createDemultiplexer`), so that all
 *  that speaks to a runner, a relay or a grader speaks to either. */
export class ExecStream extends Duplex {
  readonly #socket: WebSocket
  /** Of the program; null while it runs, and where the connection broke before the kubelet said so. */
  exitCode: number | null = null

  private constructor(socket: WebSocket) {
    super({ allowHalfOpen: false })
    this.#socket = socket
    socket.addEventListener('message', (event) => this.#receive(event))
    // What has come may still be read; the stream is destroyed behind its end.
    socket.addEventListener('close', () => this.push(null))
    socket.addEventListener('error', () => undefined)
  }

  /** Rejects where the server refuses, without its reason. */
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
    // It comes by itself.
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

/** `Success`, or a failure whose causes name the exit code of the program. */
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
