import { randomBytes } from 'node:crypto'
import type { Duplex } from 'node:stream'

import type { Container } from 'dockerode'

import { attach, createDemultiplexer, openExec } from '../engine/exec-stream.ts'
import { createReplyReader } from './reply-reader.ts'
import { type RunnerReply, answersRequest } from './runner-wire.ts'
import { RUNNER_FOLDER } from './runner-scripts.ts'

/** The connection broke or the runner died before it answered: the journal knows what happened, so ask again. */
export class RunnerStreamBroken extends Error {}

/** One stream to the runner of one sandbox: one request, one answer, never two at once. */
export interface RunnerConnection {
  /** @param maxBodyBytes an answer that announces a longer body is not read
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

/** The user of the runner, which nothing else in a sandbox can be. The engine starts our connection as it. */
export const RUNNER_USER = '65432:65432'

export async function connectRunner({ container }: { container: Container }): Promise<RunnerConnection> {
  const { socket } = await openExec({ container, command: [`${RUNNER_FOLDER}/runner`, 'connect'], user: RUNNER_USER })
  return createConnection(socket)
}

export interface AttachRunnerInput {
  container: Container
  /** Sent with the connection, which saves a round trip; the first `ask` of the same request gets its answer. */
  request: string
}

/** The runner of a container that is about to start, on the container's own streams. Only its creator may
 *  attach: every attached client receives every answer. */
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
      const waiting = pending
      if (waiting === null || reply.id !== waiting.id || !answersRequest(waiting.request, reply.words)) {
        return end('the runner answered a question that was not asked')
      }
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
      // Drawn anew for each question: an answer to any other one, earlier or guessed, is none.
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
