import { setTimeout as sleep } from 'node:timers/promises'
import { LonghaulError } from '../../../contracts/errors.ts'
import type { EnginePulse } from '../engine/engine-errors.ts'
import type { RunnerConnection } from './runner-connection.ts'
import {
  MAX_TREE_BYTES,
  type RunnerReply,
  encodeCapture,
  encodeInit,
  encodeTakeOver,
  encodeTree,
  encodeTurn,
  parseCapture,
  parseReady,
  parseTree,
  parseTurn,
} from './runner-wire.ts'
import { createKeyedQueue } from '../../../platform/limiter.ts'
import type { SandboxHandle, SandboxHost, TurnRequest, TurnResult } from '../../../contracts/sandbox.types.ts'
import type { RelayPool } from './relay/relay-pool.ts'

/** A sandbox is given up after this many failed connections to its runner. */
const MAX_CONNECTIONS_PER_REQUEST = 4

export interface RunnerRequest {
  /** Container name. */
  name: string
  /** One line, followed by the payload if the request has one. */
  line: string | Buffer
  timeoutMs: number
  /** If no answer arrives in time, the container is killed, because nothing else is certain to end a command in it. A request whose failure
   *  is ignored leaves it alone. @default kill */
  whenLate?: 'kill' | 'leave'
  /** An answer with a longer body is refused before it is read. @default 0 */
  maxBodyBytes?: number
  signal: AbortSignal
}

export interface TimedReply extends RunnerReply {
  /** How long the runner took, by a monotonic clock of this process. Reconnections and the wait for earlier callers are excluded. */
  tookMs: number
}

/** What the pool needs from the system that holds the sandboxes: a Docker engine with containers, or a cluster with pods. */
export interface RunnerAccess {
  /** Connects by an exec, as another worker would. */
  connect(name: string): Promise<RunnerConnection>
  /** Called after a connection failed. Returns if another connection may succeed; throws a LonghaulError otherwise. */
  requireRunning(name: string, cause: unknown, askedMs: number | null): Promise<void>
  /** Returns the error for a runner that does not answer. It blames the agent's processes unless the host observed another cause. */
  judgeSilence(silence: RunnerSilence): Promise<LonghaulError>
  /** Ends a sandbox and all of its processes. A sandbox that is already gone counts as ended. */
  kill(name: string): Promise<void>
  pulse: EnginePulse
}

export interface RunnerSilence {
  name: string
  why: string
  sinceMs: number
  cause: unknown
}

/** The resident runners that this process talks to, with one connection per sandbox, opened on demand. */
export interface RunnerPool {
  /** @throws LonghaulError `Sandbox.Ended` if, as far as the host can tell, the container or its runner was ended from inside;
   *  otherwise `Sandbox.Lost`, `Sandbox.EngineUnavailable`; the reason of `signal` when it aborts */
  request(request: RunnerRequest): Promise<TimedReply>
  /** Hands over a connection that the caller has made to a container that is about to start. */
  hold(name: string, connection: RunnerConnection): void
  /** Drops the connection, as a network failure would. Commands in the sandbox continue. */
  disconnect(name: string): void
  dispose(): void
}

export function createRunnerPool(access: RunnerAccess): RunnerPool {
  const connections = new Map<string, RunnerConnection>()
  const queue = createKeyedQueue()
  let disposed = false

  const connectionOf = async (name: string, interrupted: AbortSignal): Promise<RunnerConnection> => {
    const known = connections.get(name)
    if (known?.isOpen) return known
    const connection = await access.connect(name)
    if (interrupted.aborted) {
      connection.close()
      throw interrupted.reason
    }
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

  /** After an interruption the next request may be under way, so this one touches neither the sandbox nor its connection again. */
  const askUntilAnswered = async (
    { name, line, maxBodyBytes = 0 }: RunnerRequest,
    interrupted: AbortSignal,
  ): Promise<TimedReply> => {
    const beganMs = Date.now()
    let waitedMs = 0
    for (let attempt = 1; ; attempt += 1) {
      /** When the runner was first asked; null if no connection succeeded. */
      let askedMs: number | null = null
      try {
        const connection = await connectionOf(name, interrupted)
        askedMs = Date.now()
        const sentMs = performance.now()
        const end = (): number => (waitedMs += performance.now() - sentMs)
        const reply = await connection.ask(line, maxBodyBytes).finally(end)
        return { ...reply, tookMs: Math.round(waitedMs) }
      } catch (error) {
        interrupted.throwIfAborted()
        disconnect(name)
        await access.requireRunning(name, error, askedMs)
        if (attempt === MAX_CONNECTIONS_PER_REQUEST) {
          const why = 'the runner does not stay alive'
          throw await access.judgeSilence({ name, why, sinceMs: beganMs, cause: error })
        }
        await sleep(50 * attempt)
        interrupted.throwIfAborted()
      }
    }
  }

  const answerInTime = async (request: RunnerRequest): Promise<TimedReply> => {
    const { name, timeoutMs, whenLate = 'kill', signal } = request
    signal.throwIfAborted()
    const { promise: ended, reject } = Promise.withResolvers<never>()
    const interruption = new AbortController()
    const interrupt = (reason: Error): void => {
      interruption.abort(reason)
      reject(reason)
    }
    const onAbort = (): void => interrupt(signal.reason as Error)
    const timer = setTimeout(() => interrupt(new RunnerOverdue()), timeoutMs)
    const sinceMs = Date.now()
    signal.addEventListener('abort', onAbort, { once: true })
    const answer = access.pulse.during(() => askUntilAnswered(request, interruption.signal))
    // After an interruption no caller awaits `answer`, so its rejection must be handled here.
    answer.catch(() => undefined)
    try {
      return await Promise.race([answer, ended])
    } catch (error) {
      disconnect(name)
      if (!(error instanceof RunnerOverdue)) throw error
      if (whenLate === 'leave') throw unanswered(name, timeoutMs)
      const why = `no answer within ${timeoutMs} ms, so the container was killed`
      // Judged before our own kill appears among the API calls on the container.
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
      // A connection carries one request at a time, so callers of the same sandbox queue here.
      return queue.run(request.name, () => answerInTime(request))
    },
    dispose() {
      disposed = true
      for (const name of connections.keys()) disconnect(name)
    },
  }
}

class RunnerOverdue extends Error {}

function unanswered(name: string, timeoutMs: number): LonghaulError {
  return new LonghaulError({
    code: 'Sandbox.EngineUnavailable',
    message: `The runner of a sandbox did not answer within ${timeoutMs} ms`,
    details: { name },
  })
}

const MESSAGES = {
  'Sandbox.Lost': 'The sandbox is lost',
  'Sandbox.Ended': 'The sandbox was ended from inside',
  'Sandbox.Unsafe':
    'The runner could not isolate itself from the agents’ commands; nothing was run (docs/sandboxes.md)',
} as const

/** Exit code of a runner that the kernel or the engine does not let isolate itself from the commands that it runs. */
export const NO_ISOLATION = 70

export function sandboxError(
  code: keyof typeof MESSAGES,
  { name, why, cause }: { name: string; why: string; cause: unknown },
): LonghaulError {
  return new LonghaulError({ code, message: `${MESSAGES[code]}: ${why}`, details: { name }, cause })
}

/** git can be slow on a large repository. */
const CAPTURE_TIMEOUT_MS = 180_000
/** Of processors, for one capture or one hash of a tree: what Git takes for about 3 GB of new files. */
const GIT_CPU_MS = 60_000
const STATE_TIMEOUT_MS = 60_000
/** Larger than grading accepts. The limit only protects the worker's memory, which many sandboxes share, from a hostile patch. */
const MAX_PATCH_BYTES = 8 * 1024 * 1024
/** The sandbox waits 5 s between TERM and KILL; the rest is slack for an overloaded machine. */
const OUTER_SLACK_MS = 45_000

interface RunnerOperationsInput {
  runners: RunnerPool
  relays: RelayPool
  log(message: string, facts: Record<string, string | number>): void
  /** Runs an operation on an open sandbox. Adds the operation's name to failures and maps them to their codes. */
  around<T>(doing: string, name: string, signal: AbortSignal, work: () => Promise<T>): Promise<T>
  beforeTurn?: (name: string) => Promise<void>
}

/** The operations that a runner offers, independent of where its sandbox runs. */
export function createRunnerOperations({
  runners,
  relays,
  log,
  around,
  beforeTurn = async () => undefined,
}: RunnerOperationsInput): Pick<
  SandboxHost,
  'runTurn' | 'takeOver' | 'renew' | 'initialState' | 'capture' | 'treeHash'
> {
  const askState = ({ name }: SandboxHandle, line: string, signal: AbortSignal): Promise<TimedReply> =>
    runners.request({ name, line, timeoutMs: STATE_TIMEOUT_MS, signal })
  return {
    runTurn: (sandbox, request, signal) =>
      around('running a turn', sandbox.name, signal, async () => {
        await beforeTurn(sandbox.name)
        return runTurn({ runners, relays, log }, sandbox, request, signal)
      }),
    takeOver: (sandbox, fence, signal) =>
      around('taking a sandbox over', sandbox.name, signal, async () => {
        parseReady(await askState(sandbox, encodeTakeOver(fence), signal))
      }),
    renew: (sandbox, signal) =>
      around('renewing a lease', sandbox.name, signal, async () => {
        // The runner renews the lease on every request, so this request only queries the state.
        const { name } = sandbox
        const line = encodeInit(null)
        await runners.request({ name, line, timeoutMs: STATE_TIMEOUT_MS, whenLate: 'leave', signal })
      }),
    initialState: (sandbox, signal) =>
      around(
        'reading the state',
        sandbox.name,
        signal,
        async () => parseReady(await askState(sandbox, encodeInit(null), signal)).state,
      ),
    capture: (sandbox, { mode, after }, signal) =>
      around('capturing the patch', sandbox.name, signal, async () => {
        const { name, startCommit } = sandbox
        const line = encodeCapture({ mode, startCommit, maxBytes: MAX_PATCH_BYTES, after, cpuMs: GIT_CPU_MS })
        const request = { name, line, timeoutMs: CAPTURE_TIMEOUT_MS, maxBodyBytes: MAX_PATCH_BYTES, signal }
        return parseCapture(await runners.request(request))
      }),
    treeHash: (sandbox, after, signal) =>
      around('hashing the tree', sandbox.name, signal, async () => {
        const { name, startCommit } = sandbox
        const line = encodeTree({ startCommit, after, cpuMs: GIT_CPU_MS })
        const request = { name, line, timeoutMs: CAPTURE_TIMEOUT_MS, maxBodyBytes: MAX_TREE_BYTES, signal }
        return parseTree(await runners.request(request))
      }),
  }
}

async function runTurn(
  { runners, relays, log }: Pick<RunnerOperationsInput, 'runners' | 'relays' | 'log'>,
  sandbox: SandboxHandle,
  request: TurnRequest,
  signal: AbortSignal,
): Promise<TurnResult> {
  const { name, allowedHosts } = sandbox
  const line = encodeTurn(request)
  // The network was opened with the sandbox. If it cannot be opened again, either the agent has broken it or the engine reports an
  // error.
  if (allowedHosts !== undefined) {
    await relays.ensure({ name, allowedHosts }).catch((error: unknown) => {
      log('sandbox network: not open', { sandbox: name, why: error instanceof Error ? error.message : String(error) })
    })
  }
  const timeoutMs = request.timeoutMs + OUTER_SLACK_MS
  const reply = await runners.request({ name, line, timeoutMs, maxBodyBytes: request.maxOutputBytes, signal })
  const result = parseTurn(reply, reply.tookMs)
  const network = relays.takeUse(name)
  return network === undefined ? result : { ...result, network }
}
