import type { Duplex } from 'node:stream'

import type { Container } from 'dockerode'

import { createDemultiplexer, openExec } from './exec-stream.ts'
import { HOME } from './runner-files.ts'
import { type RunnerReply, sizeOfReply } from './runner-protocol.ts'

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

export async function connectRunner(container: Container): Promise<RunnerConnection> {
  const { socket } = await openExec({ container, command: ['/bin/sh', `${HOME}/bin/start.sh`] })
  return createConnection(socket)
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
  return {
    push(payload) {
      chunks.push(payload)
      length += payload.length
      if (length < needed) return null
      const buffer = Buffer.concat(chunks)
      chunks = [buffer]
      const parsed = parseReply(buffer)
      if (typeof parsed === 'number') {
        needed = parsed
        return null
      }
      chunks = []
      length = 0
      needed = 0
      return parsed
    },
  }
}

/** A whole answer, or how many bytes are needed before another look is worth it. */
function parseReply(buffer: Buffer): RunnerReply | 'malformed' | number {
  const headEnd = buffer.indexOf('\n')
  if (headEnd < 0) return buffer.length + 1
  const [mark, ...words] = buffer.subarray(0, headEnd).toString().split(' ')
  if (mark !== 'lh1') return 'malformed'
  const { lines, bytes } = sizeOfReply(words)
  if (!Number.isSafeInteger(bytes) || bytes < 0) return 'malformed'
  let bodyStart = headEnd + 1
  let openFile = ''
  if (lines === 1) {
    const lineEnd = buffer.indexOf('\n', bodyStart)
    if (lineEnd < 0) return buffer.length + 1
    openFile = buffer.subarray(bodyStart, lineEnd).toString()
    bodyStart = lineEnd + 1
  }
  const total = bodyStart + bytes
  if (buffer.length < total) return total
  return { words, openFile, body: Buffer.from(buffer.subarray(bodyStart, total)) }
}
