import type { Duplex } from 'node:stream'

import type { Container } from 'dockerode'

import { attach, createDemultiplexer, openExec } from './exec-stream.ts'
import { createReplyReader } from './reply-reader.ts'
import type { RunnerReply } from './runner-protocol.ts'
import { bootText, firstProcess, readScript, runnerEnvironment } from './runner-scripts.ts'

/** The connection broke or the runner died before it answered: the journal knows what happened, so ask again. */
export class RunnerStreamBroken extends Error {}

/** One exec stream to one resident runner: one request, one answer, never two at once. */
export interface RunnerConnection {
  /** @param maxBodyBytes an answer that announces a longer body is not read
   *  @throws RunnerStreamBroken */
  ask(request: string | Buffer, maxBodyBytes: number): Promise<RunnerReply>
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
  const answer = connection.ask(text, 0)
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

/** @internal exported for its test */
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
      if (reply.words[0] === 'ended') return end('the runner has ended')
      const waiting = pending
      if (waiting === null) return end('the runner answered a question that was not asked')
      pending = null
      reader.allow(0)
      waiting.resolve(reply)
    })
    if (refusal !== null) end(`the runner answered out of form (${refusal})`)
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
      return new Promise((resolve, reject) => {
        pending = { resolve, reject }
        reader.allow(maxBodyBytes)
        socket.write(request)
      })
    },
    close: () => end('closed by us'),
  }
}
