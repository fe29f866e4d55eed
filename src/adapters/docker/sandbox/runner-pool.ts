import { setTimeout as sleep } from 'node:timers/promises'

import { LonghaulError } from '../../../contracts/errors.ts'
import type { EnginePulse } from '../engine/engine-pulse.ts'
import type { RunnerConnection } from './runner-connection.ts'
import type { RunnerReply } from './runner-wire.ts'
import { createKeyedQueue } from '../../../platform/limiter.ts'

/** After so many failed connections to its runner a sandbox is given up. */
const MAX_CONNECTIONS_PER_REQUEST = 4

export interface RunnerRequest {
  /** Container name. */
  name: string
  /** One line, with what follows it where the request has a payload. */
  line: string | Buffer
  /** No answer within this time: the container is killed, for nothing else ends a command there for certain. */
  timeoutMs: number
  /** An answer with a longer body is refused before it is read. @default 0 */
  maxBodyBytes?: number
  signal: AbortSignal
}

export interface TimedReply extends RunnerReply {
  /** How long a runner was asked, by a clock of this process that never jumps. Connections that were opened anew, and callers that
   *  went first, are not in it. */
  tookMs: number
}

/** What holds the sandboxes, as far as their runners need it: an engine of containers, a cluster of pods. */
export interface RunnerAccess {
  /** By an exec, as another worker would. */
  connect(name: string): Promise<RunnerConnection>
  /** Called after a connection failed. Returns where another connection may succeed, and throws a LonghaulError otherwise. */
  requireRunning(name: string, cause: unknown, askedMs: number | null): Promise<void>
  /** The error for a runner that gives no answer. It blames the agent's processes unless the host saw another cause. */
  judgeSilence(silence: RunnerSilence): Promise<LonghaulError>
  /** Ends a sandbox with all that runs in it. One that is gone counts as ended. */
  kill(name: string): Promise<void>
  pulse: EnginePulse
}

export interface RunnerSilence {
  name: string
  why: string
  sinceMs: number
  cause: unknown
}

/** The resident runners of this process, one connection a sandbox, opened when needed. */
export interface RunnerPool {
  /** @throws LonghaulError `Sandbox.Ended` where the container or its runner was ended from inside, as far as the host can see;
   *  else `Sandbox.Lost`, `Sandbox.EngineUnavailable`; the reason of `signal` when it aborts */
  request(request: RunnerRequest): Promise<TimedReply>
  /** A connection that the caller has made to a container that is about to start. */
  hold(name: string, connection: RunnerConnection): void
  /** Cuts the connection as a network would: what runs in the sandbox goes on. */
  disconnect(name: string): void
  dispose(): void
}

export function createRunnerPool(access: RunnerAccess): RunnerPool {
  const connections = new Map<string, RunnerConnection>()
  const queue = createKeyedQueue()
  let disposed = false

  const connectionOf = async (name: string): Promise<RunnerConnection> => {
    const known = connections.get(name)
    if (known?.isOpen) return known
    const connection = await access.connect(name)
    if (disposed) {
      connection.close()
      throw new LonghaulError({ code: 'Sandbox.EngineUnavailable', message: 'The sandbox host was closed' })
    }
    connections.set(name, connection)
    return connection
  }

  const disconnect = (name: string): void => {
    connections.get(name)?.close()
    connections.delete(name)
  }

  const askUntilAnswered = async ({ name, line, maxBodyBytes = 0 }: RunnerRequest): Promise<TimedReply> => {
    const beganMs = Date.now()
    let waitedMs = 0
    for (let attempt = 1; ; attempt += 1) {
      /** Since when a runner has been asked; null where none could be. */
      let askedMs: number | null = null
      try {
        const connection = await connectionOf(name)
        askedMs = Date.now()
        const sentMs = performance.now()
        const end = (): number => (waitedMs += performance.now() - sentMs)
        const reply = await connection.ask(line, maxBodyBytes).finally(end)
        return { ...reply, tookMs: Math.round(waitedMs) }
      } catch (error) {
        disconnect(name)
        await access.requireRunning(name, error, askedMs)
        if (attempt === MAX_CONNECTIONS_PER_REQUEST) {
          const why = 'the runner does not stay alive'
          throw await access.judgeSilence({ name, why, sinceMs: beganMs, cause: error })
        }
        await sleep(50 * attempt)
      }
    }
  }

  const answerInTime = async (request: RunnerRequest): Promise<TimedReply> => {
    const { name, timeoutMs, signal } = request
    signal.throwIfAborted()
    const { promise: interrupted, reject } = Promise.withResolvers<never>()
    const onAbort = (): void => reject(signal.reason as Error)
    const timer = setTimeout(() => reject(new RunnerOverdue()), timeoutMs)
    const sinceMs = Date.now()
    signal.addEventListener('abort', onAbort, { once: true })
    const answer = access.pulse.during(() => askUntilAnswered(request))
    // After an interruption no caller waits for `answer`: its rejection is ignored.
    answer.catch(() => undefined)
    try {
      return await Promise.race([answer, interrupted])
    } catch (error) {
      disconnect(name)
      if (!(error instanceof RunnerOverdue)) throw error
      const why = `no answer within ${timeoutMs} ms, so the container was killed`
      // Asked before our own kill counts among the orders that the container got.
      const failure = await access.judgeSilence({ name, why, sinceMs, cause: error })
      await access.kill(name)
      throw failure
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
    }
  }

  return {
    disconnect,
    hold(name, connection) {
      connections.set(name, connection)
    },
    request(request) {
      // A connection carries one request at a time; callers of the same sandbox wait for each other.
      return queue.run(request.name, () => answerInTime(request))
    },
    dispose() {
      disposed = true
      for (const name of connections.keys()) disconnect(name)
    },
  }
}

class RunnerOverdue extends Error {}

const MESSAGES = {
  'Sandbox.Lost': 'The sandbox is lost',
  'Sandbox.Ended': 'The sandbox was ended from inside',
  'Sandbox.Unsafe':
    'The runner could not set itself apart from the commands of agents; nothing was run (docs/sandboxes.md)',
} as const

/** Exit code of a runner that the kernel or the engine does not let isolate itself from the commands that it runs. */
export const NO_ISOLATION = 70

export function sandboxError(
  code: keyof typeof MESSAGES,
  { name, why, cause }: { name: string; why: string; cause: unknown },
): LonghaulError {
  return new LonghaulError({ code, message: `${MESSAGES[code]}: ${why}`, details: { name }, cause })
}
