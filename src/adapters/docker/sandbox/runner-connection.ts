import { randomBytes } from 'node:crypto'
import type { Duplex } from 'node:stream'
import type { Container } from 'dockerode'
import type { Engine } from '../engine/engine.ts'
import { attach, createDemultiplexer, openExec } from '../engine/exec-stream.ts'
import {
  type RunnerReply,
  answersRequest,
  MAX_LINE_BYTES,
  MAX_STATE_BYTES,
  isKnownReply,
  sizeOfReply,
  RUNNER_FOLDER,
} from './runner-wire.ts'

/** The connection broke, or the runner died, before the answer arrived. The command may have run: the caller asks again and the
 *  journal tells. */
export class RunnerStreamBroken extends Error {}

/** One stream to the runner of one sandbox. It carries one request at a time. */
export interface RunnerConnection {
  /** @param maxBodyBytes an answer that announces a longer body is rejected before the body is read
   *  @throws RunnerStreamBroken */
  ask(request: string | Buffer, maxBodyBytes: number): Promise<RunnerReply>
  readonly isOpen: boolean
  close(): void
}

interface Pending {
  id: string
  request: string | Buffer
  resolve: (reply: RunnerReply) => void
  reject: (error: Error) => void
}

/** The runner's user. No other process in a sandbox can have it; the engine starts our exec as this user. */
const RUNNER_USER = '65432:65432'

/** The command that connects an exec to the runner. */
export const CONNECT_COMMAND: string[] = [`${RUNNER_FOLDER}/runner`, 'connect']

/** Opens an exec as the runner's user in a container. */
export async function openRunnerExec({ docker }: Engine, name: string, command: string[]): Promise<Duplex> {
  const { socket } = await openExec({ container: docker.getContainer(name), command, user: RUNNER_USER })
  return socket
}

export interface AttachRunnerInput {
  container: Container
  /** Sent together with the connection, which saves a round trip. The first `ask` with the same request receives its answer. */
  request: string
}

/** Connects to the runner of a container that is about to start, over the container's own streams. Only the creator of the container
 *  may attach, because every attached client receives every answer. */
export async function attachRunner({ container, request }: AttachRunnerInput): Promise<RunnerConnection> {
  const connection = createConnection(await attach(container))
  const answer = connection.ask(request, 0)
  answer.catch(() => undefined)
  let isTaken = false
  return {
    get isOpen() {
      return connection.isOpen
    },
    async ask(next, maxBodyBytes) {
      const isFirst = next === request && !isTaken
      isTaken = true
      const first = await answer
      return isFirst ? first : connection.ask(next, maxBodyBytes)
    },
    close: () => connection.close(),
  }
}

/** @param socket in the format of Docker's multiplexed streams, see `createDemultiplexer` */
export function createConnection(socket: Duplex): RunnerConnection {
  const reader = createReplyReader()
  let pending: Pending | null = null
  let complaint = ''
  let open = true

  const end = (reason: string): void => {
    if (!open) return
    open = false
    socket.destroy()
    const waiting = pending
    pending = null
    waiting?.reject(new RunnerStreamBroken(complaint === '' ? reason : `${reason}: ${complaint.trim()}`))
  }
  const demultiplex = createDemultiplexer((kind, payload) => {
    if (kind === 'stderr') {
      complaint = (complaint + payload.toString()).slice(-1000)
      return
    }
    if (!open) return
    const refusal = reader.push(payload, (reply) => {
      const waiting = pending
      if (waiting === null || reply.id !== waiting.id || !answersRequest(waiting.request, reply.words)) {
        return end('the runner sent an answer without a request')
      }
      pending = null
      reader.allow(0)
      waiting.resolve(reply)
    })
    if (refusal !== null) end(`the runner sent an invalid answer (${refusal})`)
  })
  socket.on('data', demultiplex)
  socket.on('error', (error) => end(error.message))
  socket.on('end', () => end('the stream ended'))
  socket.on('close', () => end('the stream was closed'))

  return {
    get isOpen() {
      return open
    },
    ask(request, maxBodyBytes) {
      if (!open) return Promise.reject(new RunnerStreamBroken('the stream is closed'))
      if (pending !== null) return Promise.reject(new Error('a runner answers one request at a time'))
      // A random id for each request, so that an answer to an earlier or a guessed request is ignored.
      const id = randomBytes(12).toString('hex')
      return new Promise((resolve, reject) => {
        pending = { id, request, resolve, reject }
        reader.allow(maxBodyBytes)
        socket.write(Buffer.concat([Buffer.from(`${id} `), Buffer.from(request)]))
      })
    },
    close: () => end('closed by us'),
  }
}

/** Why bytes from a runner are not a valid answer. */
export type ReplyRefusal =
  | 'no mark'
  | 'a word is unknown'
  | 'a line is too long'
  | 'a length is not a number'
  | 'the state is too long'
  | 'the body is too long'

export interface ReplyReader {
  /** Calls `onReply` with each answer that is complete.
   *  @returns null, or the reason why the stream can no longer be used */
  push(payload: Buffer, onReply: (reply: RunnerReply) => void): ReplyRefusal | null
  /** Limits the body of the next answer. @default 0 */
  allow(maxBodyBytes: number): void
}

/** Limit for the two header lines of an answer, whose length is not announced. */
const MAX_UNANNOUNCED_BYTES = 2 * (MAX_LINE_BYTES + 1)

/**
 * Collects payloads until an answer is complete. Commands never write to this stream, but processes that run as root in the sandbox
 * can. Announced lengths are therefore compared with the request's limits before a byte is buffered. A hostile runner costs the worker
 * no more memory than an honest one, however small its payloads are.
 */
export function createReplyReader(): ReplyReader {
  let buffer = Buffer.alloc(0)
  let length = 0
  let needed = 0
  let maxBodyBytes = 0
  let lastState: Buffer = Buffer.alloc(0)

  const hold = (payload: Buffer): void => {
    if (length + payload.length > buffer.length) {
      const larger = Buffer.allocUnsafe(
        Math.max(needed, length + payload.length, Math.min(2 * buffer.length, MAX_UNANNOUNCED_BYTES)),
      )
      buffer.copy(larger, 0, 0, length)
      buffer = larger
    }
    payload.copy(buffer, length)
    length += payload.length
  }

  return {
    allow(bytes) {
      maxBodyBytes = bytes
    },
    push(payload, onReply) {
      hold(payload)
      while (length >= needed && length > 0) {
        const parsed = parseReply({ buffer: buffer.subarray(0, length), lastState, maxBodyBytes })
        if (typeof parsed === 'string') return parsed
        if (typeof parsed === 'number') {
          needed = parsed
          return null
        }
        const { reply, bytes } = parsed
        const rest = Buffer.from(buffer.subarray(bytes, length))
        buffer = rest
        length = rest.length
        needed = 0
        if (reply.state.length > 0) lastState = reply.state
        onReply(reply)
      }
      return null
    },
  }
}

interface ParseReplyInput {
  buffer: Buffer
  lastState: Buffer
  maxBodyBytes: number
}

/** Returns a complete answer, or the number of bytes at which parsing is worth another try. */
function parseReply({
  buffer,
  lastState,
  maxBodyBytes,
}: ParseReplyInput): { reply: RunnerReply; bytes: number } | number | ReplyRefusal {
  const head = takeLine(buffer, 0)
  if (typeof head !== 'object') return head
  const [mark, id = '', ...words] = head.text.split(' ')
  if (mark !== 'lh1') return 'no mark'
  const { lines, stateBytes, bodyBytes } = sizeOfReply(words)
  if (!isCount(stateBytes ?? 0) || !isCount(bodyBytes)) return 'a length is not a number'
  if (!isKnownReply(words)) return 'a word is unknown'
  if ((stateBytes ?? 0) > MAX_STATE_BYTES) return 'the state is too long'
  if (bodyBytes > maxBodyBytes) return 'the body is too long'
  const open = lines === 1 ? takeLine(buffer, head.end) : { text: '', end: head.end }
  if (typeof open !== 'object') return open
  const bodyStart = open.end + (stateBytes ?? 0)
  const total = bodyStart + bodyBytes
  if (buffer.length < total) return total
  const state = stateBytes === null ? lastState : Buffer.from(buffer.subarray(open.end, bodyStart))
  return {
    reply: { id, words, openFile: open.text, state, body: Buffer.from(buffer.subarray(bodyStart, total)) },
    bytes: total,
  }
}

/** Returns the line that begins at `start`, without its newline, or the number of bytes at which parsing is worth another try. */
function takeLine(buffer: Buffer, start: number): { text: string; end: number } | number | 'a line is too long' {
  const end = buffer.subarray(start, start + MAX_LINE_BYTES + 1).indexOf('\n')
  if (end >= 0) return { text: buffer.subarray(start, start + end).toString(), end: start + end + 1 }
  return buffer.length - start > MAX_LINE_BYTES ? 'a line is too long' : buffer.length + 1
}

function isCount(number: number): boolean {
  return Number.isSafeInteger(number) && number >= 0
}
