import { setTimeout as sleep } from 'node:timers/promises'

import { LonghaulError } from '../../../contracts/errors.ts'
import { endedFromInside, mayStartAgain, startOnce, wasLeftAlone } from '../container/container-state.ts'
import { createEnginePulse, type EnginePulse } from '../engine/engine-pulse.ts'
import { ignoreGone, isStatus, toSandboxError } from '../engine/engine-errors.ts'
import type { Engine } from '../engine/engine.ts'
import { type RunnerConnection, RunnerStreamBroken, attachRunner, connectRunner } from './runner-connection.ts'
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

/** The resident runners of this process, one connection a sandbox, opened when needed. */
export interface RunnerPool {
  /** @throws LonghaulError `Sandbox.Ended` where the container or its runner was ended from inside, as far as the host can see;
   *  else `Sandbox.Lost`, `Sandbox.EngineUnavailable`; the reason of `signal` when it aborts */
  request(request: RunnerRequest): Promise<TimedReply>
  /** Before the start of a container that the caller has just created: its runner is asked without an exec then. The line that
   *  is asked first goes ahead. */
  attach(request: Pick<RunnerRequest, 'name'> & { line: string }): Promise<void>
  /** Cuts the connection as a network would: what runs in the sandbox goes on. */
  disconnect(name: string): void
  dispose(): void
}

export function createRunnerPool({ engine }: { engine: Engine }): RunnerPool {
  const connections = new Map<string, RunnerConnection>()
  const queue = createKeyedQueue()
  const pulse = createEnginePulse({ engine })
  let disposed = false

  const connectionOf = async (name: string): Promise<RunnerConnection> => {
    const known = connections.get(name)
    if (known?.isOpen) return known
    const container = engine.docker.getContainer(name)
    const connection = await connectRunner({ container })
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
        await requireRunning(engine, name, error, askedMs)
        if (attempt === MAX_CONNECTIONS_PER_REQUEST) {
          throw await silent({ engine, name, why: 'the runner does not stay alive', sinceMs: beganMs, pulse }, error)
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
    const answer = pulse.during(() => askUntilAnswered(request))
    // After an interruption no caller waits for `answer`: its rejection is ignored.
    answer.catch(() => undefined)
    try {
      return await Promise.race([answer, interrupted])
    } catch (error) {
      disconnect(name)
      if (!(error instanceof RunnerOverdue)) throw error
      const why = `no answer within ${timeoutMs} ms, so the container was killed`
      // Asked before our own kill counts among the orders that the container got.
      const failure = await silent({ engine, name, why, sinceMs, pulse }, error)
      await engine.docker.getContainer(name).kill({ signal: 'SIGKILL' }).catch(ignoreGone)
      throw failure
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
    }
  }

  return {
    disconnect,
    async attach({ name, line }) {
      const container = engine.docker.getContainer(name)
      connections.set(name, await attachRunner({ container, request: line }))
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

/** Returns where another connection is worth a try, and throws elsewhere. */
async function requireRunning(engine: Engine, name: string, cause: unknown, askedMs: number | null): Promise<void> {
  if (cause instanceof LonghaulError) throw cause
  if (isStatus(cause, 404)) throw sandboxError('Sandbox.Lost', { name, why: 'the container is gone', cause })
  try {
    const container = engine.docker.getContainer(name)
    const { Id: id, State: state } = await container.inspect()
    if (!state.Running) {
      if (state.ExitCode === NO_ISOLATION)
        throw sandboxError('Sandbox.Unsafe', { name, why: String(cause).slice(0, 300), cause })
      const stopped = `the container has stopped (${state.Status}, ${state.ExitCode})`
      if (await endedFromInside(engine, { id, state }, askedMs))
        throw sandboxError('Sandbox.Ended', { name, why: stopped, cause })
      if (!mayStartAgain(state)) throw sandboxError('Sandbox.Lost', { name, why: stopped, cause })
      await startOnce(container)
      return
    }
    if (state.Paused) throw toSandboxError(cause, { doing: 'asking a paused container', details: { name } })
  } catch (error) {
    if (isStatus(error, 404)) throw sandboxError('Sandbox.Lost', { name, why: 'the container is gone', cause })
    throw toSandboxError(error, { doing: 'looking at a container', details: { name } })
  }
  if (cause instanceof RunnerStreamBroken || isStatus(cause, 409, 500)) return
  throw toSandboxError(cause, { doing: 'opening a runner', details: { name } })
}

/** Exit code of a runner that the kernel or the engine does not let isolate itself from the commands that it runs. */
const NO_ISOLATION = 70

interface SilentRunner {
  engine: Engine
  name: string
  why: string
  sinceMs: number
  pulse: EnginePulse
}

/**
 * A runner that gives no answer in a container that runs. Stopped, killed or starved by what runs beside it, unless the host saw
 * something else that explains it: an order for the container, an engine or a machine that was silent itself.
 */
async function silent({ engine, name, why, sinceMs, pulse }: SilentRunner, cause: unknown): Promise<LonghaulError> {
  try {
    const { Id: id, State: state } = await engine.docker.getContainer(name).inspect()
    if (!state.Running) {
      const isEnded = await endedFromInside(engine, { id, state }, sinceMs)
      return sandboxError(isEnded ? 'Sandbox.Ended' : 'Sandbox.Lost', { name, why, cause })
    }
    const isOurs =
      state.Paused || pulse.wasSilentSince(sinceMs) || !(await wasLeftAlone(engine, { id, state }, sinceMs))
    return sandboxError(isOurs ? 'Sandbox.Lost' : 'Sandbox.Ended', { name, why, cause })
  } catch {
    return sandboxError('Sandbox.Lost', { name, why, cause })
  }
}

const MESSAGES = {
  'Sandbox.Lost': 'The sandbox is lost',
  'Sandbox.Ended': 'The sandbox was ended from inside',
  'Sandbox.Unsafe':
    'The runner could not set itself apart from the commands of agents; nothing was run (docs/sandboxes.md)',
} as const

function sandboxError(
  code: keyof typeof MESSAGES,
  { name, why, cause }: { name: string; why: string; cause: unknown },
): LonghaulError {
  return new LonghaulError({ code, message: `${MESSAGES[code]}: ${why}`, details: { name }, cause })
}
