import type { Duplex } from 'node:stream'

import type { Container } from 'dockerode'

import { attach, createDemultiplexer, openExec } from './exec-stream.ts'
import { type RunnerReply, sizeOfReply } from './runner-protocol.ts'
import { bootText, firstProcess, readScript, runnerEnvironment } from './runner-scripts.ts'

/** The connection broke or the runner died before it answered: the journal knows what happened, so ask again. */
export class RunnerStreamBroken extends Error {}

/** One exec stream to one resident runner: one request, one answer, never two at once. */
export interface RunnerConnection {
  /** @throws RunnerStreamBroken */
  ask(request: string | Buffer): Promise<RunnerReply>
  readonly isOpen: boolean
  close(): void
}

interface Pending {
  resolve: (reply: RunnerReply) => void
  reject: (error: Error) => void
}

export interface ConnectRunnerInput {
  container: Container
  /** Whether the container's first process is the engine's init helper. */
  hasInit: boolean
}

export async function connectRunner({ container, hasInit }: ConnectRunnerInput): Promise<RunnerConnection> {
  const [start, environment] = await Promise.all([readScript('start.sh'), runnerEnvironment()])
  const command = ['/bin/sh', '-c', start, 'start', firstProcess(hasInit)]
  const { socket } = await openExec({ container, command, environment })
  return createConnection(socket)
}

export interface AttachRunnerInput extends ConnectRunnerInput {
  /** Goes out with the scripts, which saves the way there and back; whoever asks it first gets its answer. */
  request: string
}

/** The first runner of a container that is about to start: its main process starts it on the container's own streams. Only
 *  who created the container may do this, for all who attach hear every answer. */
export async function attachRunner({ container, hasInit, request }: AttachRunnerInput): Promise<RunnerConnection> {
  const [socket, text] = await Promise.all([attach(container), bootText({ hasInit, request })])
  const connection = createConnection(socket)
  // Some versions of `head` read more of a pipe than they were asked for, so nothing may follow before the first answer.
  const answer = connection.ask(text)
  answer.catch(() => undefined)
  let isTaken = false
  return {
    get isOpen() {
      return connection.isOpen
    },
    async ask(next) {
      const isFirst = next === request && !isTaken
      isTaken = true
      const first = await answer
      return isFirst ? first : connection.ask(next)
    },
    close: () => connection.close(),
  }
}

function createConnection(socket: Duplex): RunnerConnection {
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
    const reply = reader.push(payload)
    if (reply === 'malformed') return end('the runner answered out of form')
    if (reply === null) return
    if (reply.words[0] === 'ended') return end('the runner has ended')
    const waiting = pending
    pending = null
    waiting?.resolve(reply)
  })
  socket.on('data', demultiplex)
  socket.on('error', (error) => end(error.message))
  socket.on('end', () => end('the stream ended'))
  socket.on('close', () => end('the stream was closed'))

  return {
    get isOpen() {
      return open
    },
    ask(request) {
      if (!open) return Promise.reject(new RunnerStreamBroken('the stream is closed'))
      if (pending !== null) return Promise.reject(new Error('a runner answers one request at a time'))
      return new Promise((resolve, reject) => {
        pending = { resolve, reject }
        socket.write(request)
      })
    },
    close: () => end('closed by us'),
  }
}

/** Collects payloads until one answer is whole. Commands never write to this stream, so bytes out of form are a bug or
 *  an attack, and end the connection. */
function createReplyReader(): { push(payload: Buffer): RunnerReply | 'malformed' | null } {
  let chunks: Buffer[] = []
  let length = 0
  let needed = 0
  let lastState: Buffer = Buffer.alloc(0)
  return {
    push(payload) {
      chunks.push(payload)
      length += payload.length
      if (length < needed) return null
      const buffer = Buffer.concat(chunks)
      chunks = [buffer]
      const parsed = parseReply(buffer, lastState)
      if (typeof parsed === 'number') {
        needed = parsed
        return null
      }
      chunks = []
      length = 0
      needed = 0
      if (parsed !== 'malformed' && parsed.state.length > 0) lastState = parsed.state
      return parsed
    },
  }
}

/** A whole answer, or how many bytes are needed before another look is worth it. */
function parseReply(buffer: Buffer, lastState: Buffer): RunnerReply | 'malformed' | number {
  const headEnd = buffer.indexOf('\n')
  if (headEnd < 0) return buffer.length + 1
  const [mark, ...words] = buffer.subarray(0, headEnd).toString().split(' ')
  if (mark !== 'lh1') return 'malformed'
  const { lines, stateBytes, bodyBytes } = sizeOfReply(words)
  if (!isCount(stateBytes ?? lastState.length) || !isCount(bodyBytes)) return 'malformed'
  let stateStart = headEnd + 1
  let openFile = ''
  if (lines === 1) {
    const lineEnd = buffer.indexOf('\n', stateStart)
    if (lineEnd < 0) return buffer.length + 1
    openFile = buffer.subarray(stateStart, lineEnd).toString()
    stateStart = lineEnd + 1
  }
  const bodyStart = stateStart + (stateBytes ?? 0)
  const total = bodyStart + bodyBytes
  if (buffer.length < total) return total
  const state = stateBytes === null ? lastState : Buffer.from(buffer.subarray(stateStart, bodyStart))
  return { words, openFile, state, body: Buffer.from(buffer.subarray(bodyStart, total)) }
}

function isCount(number: number): boolean {
  return Number.isSafeInteger(number) && number >= 0
}
