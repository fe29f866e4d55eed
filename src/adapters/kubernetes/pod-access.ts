import { LonghaulError } from '../../contracts/errors.ts'
import { createEnginePulse, type EnginePulse } from '../docker/engine/engine-errors.ts'
import { createDemultiplexer } from '../docker/engine/exec-stream.ts'
import { CONNECT_COMMAND, RunnerStreamBroken, createConnection } from '../docker/sandbox/runner-connection.ts'
import { type RunnerAccess, type RunnerSilence, sandboxError } from '../docker/sandbox/runner-pool.ts'
import { RUNNER_FOLDER } from '../docker/sandbox/runner-wire.ts'
import { isRefused, toClusterError, unlessRefused } from './cluster-errors.ts'
import type { Cluster } from './cluster.ts'
import type { ExecStream } from './exec-stream.ts'
import { deletePod } from './list-pods.ts'
import type { Pod } from './pod-spec.ts'
import { endOf, isNodeLost, isRunning, isTakenAway } from './pod-state.ts'

/** Milliseconds within which a small program must start in a pod. Otherwise the pod counts as unreachable. */
const LOOK_MS = 15_000

export function createClusterPulse(cluster: Cluster): EnginePulse {
  return createEnginePulse({ ping: () => cluster.ask({ path: '/version', timeoutMs: 8_000 }) })
}

/** Gives access to runners in pods. */
export function createPodAccess({ cluster }: { cluster: Cluster }): RunnerAccess {
  const pulse = createClusterPulse(cluster)
  return {
    pulse,
    connect: async (name) => createConnection(await cluster.exec(name, CONNECT_COMMAND)),
    requireRunning: (name, cause, askedMs) => requireRunning(cluster, name, cause, askedMs),
    judgeSilence: (silence) => judgeSilence(cluster, pulse, silence),
    kill: (name) => deletePod(cluster, name),
  }
}

/** Returns null if the pod is gone. */
export async function readPod(cluster: Cluster, name: string, signal?: AbortSignal): Promise<Pod | null> {
  const path = cluster.pathOf('pods', name)
  const asked = cluster.ask({ path, ...(signal === undefined ? {} : { signal }) })
  return (await unlessRefused([404], asked)) as Pod | null
}

async function requireRunning(cluster: Cluster, name: string, cause: unknown, askedMs: number | null): Promise<void> {
  if (cause instanceof LonghaulError) throw cause
  try {
    const pod = await readPod(cluster, name)
    if (pod === null) throw sandboxError('Sandbox.Lost', { name, why: 'the pod is gone', cause })
    // Its processes may still run, but cannot reach anything. The episode continues in another sandbox.
    if (isTakenAway(pod)) throw sandboxError('Sandbox.Lost', { name, why: 'the cluster has removed the pod', cause })
    if (!isRunning(pod)) throw endOf(pod, { name, cause, askedMs })
    if (isNodeLost(pod))
      throw sandboxError('Sandbox.Lost', { name, why: 'the node of the pod does not respond', cause })
  } catch (error) {
    throw toClusterError(error, { doing: 'looking at a pod', details: { name } })
  }
  // The pod ends slightly before the kubelet reports it, and a silent kubelet may recover.
  if (
    cause instanceof RunnerStreamBroken ||
    isConnectionFailure(cause) ||
    isRefused(cause, 404, 409, 500, 502, 503, 504)
  )
    return
  throw toClusterError(cause, { doing: 'opening a runner', details: { name } })
}

function isConnectionFailure(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === 'ECONNRESET'
}

/**
 * Attributes the silence of a runner whose pod still runs. The agent's processes have stopped, killed or starved the runner, unless
 * there is another explanation: a cluster that was itself silent, or a pod that cannot be reached, which running another program in it
 * shows.
 */
async function judgeSilence(
  cluster: Cluster,
  pulse: EnginePulse,
  { name, why, sinceMs, cause }: RunnerSilence,
): Promise<LonghaulError> {
  const lost = sandboxError('Sandbox.Lost', { name, why, cause })
  try {
    const pod = await readPod(cluster, name)
    if (pod === null) return lost
    if (!isRunning(pod)) return endOf(pod, { name, cause, askedMs: sinceMs })
    if (isNodeLost(pod) || pulse.wasSilentSince(sinceMs)) return lost
    const command = [`${RUNNER_FOLDER}/runner`, 'counts', '/sys/fs/cgroup']
    const { exitCode } = await runInPod(cluster, name, command, LOOK_MS)
    if (exitCode === 0) return sandboxError('Sandbox.Ended', { name, why, cause })
    // A restarting kubelet takes some seconds and loses no pod.
    if (exitCode === null) return toClusterError(cause, { doing: 'reaching a pod', details: { name } })
    return lost
  } catch {
    return lost
  }
}

/** Limit on the output of a program that is kept. */
const MAX_WORDS = 4096

/** Runs a program as root of the pod, outside the jail. It must not be a file that an agent could have changed. @throws if it does
 *  not end in time */
export async function runInPod(
  cluster: Cluster,
  name: string,
  command: readonly string[],
  timeoutMs: number,
): Promise<{ exitCode: number | null; words: string }> {
  const stream = await cluster.exec(name, command)
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const timer = setTimeout(() => reject(new Error(`not finished within ${timeoutMs} ms`)), timeoutMs)
  let words = ''
  stream.on(
    'data',
    createDemultiplexer((_, payload) => (words = (words + payload.toString()).slice(-MAX_WORDS))),
  )
  stream.on('error', reject)
  stream.on('close', resolve)
  try {
    await promise
    return { exitCode: stream.exitCode, words }
  } finally {
    clearTimeout(timer)
    stream.destroy()
  }
}

/** Starts a program in a pod, isolated by its runner. Its input has no end. */
export function enter(cluster: Cluster, name: string, command: readonly string[]): Promise<ExecStream> {
  return cluster.exec(name, [`${RUNNER_FOLDER}/runner`, 'enter', ...command])
}

/**
 * Reads what a program in a pod prints until a pattern matches. Null if the stream ended before, or time was up. The program must then wait
 * for a line, which this sends: a cluster may lose the last output of a program that ends.
 */
export async function readUntil(
  stream: ExecStream,
  pattern: RegExp,
  timeoutMs: number,
): Promise<RegExpExecArray | null> {
  const { promise, resolve } = Promise.withResolvers<RegExpExecArray | null>()
  const timer = setTimeout(() => resolve(null), timeoutMs)
  let said = ''
  stream.on(
    'data',
    createDemultiplexer((_, payload) => {
      said = (said + payload.toString()).slice(-MAX_WORDS)
      const found = pattern.exec(said)
      if (found !== null) resolve(found)
    }),
  )
  for (const event of ['close', 'error']) stream.on(event, () => resolve(null))
  try {
    const found = await promise
    if (found !== null) stream.write('\n')
    return found
  } finally {
    clearTimeout(timer)
    stream.destroy()
  }
}

/** Prints the exit code, because a program that the runner starts does not return one here. */
const SAYS_CODE = 'script=$1; shift; /bin/sh -c "$script" script "$@" </dev/null; echo "lh-code=$?"; read -r lh_seen'

/**
 * Runs a script with arguments in the jail of a pod.
 * @throws LonghaulError `Sandbox.EngineUnavailable` if the script did not come to its end in time, or the connection broke before
 */
export async function runScriptInPod(
  cluster: Cluster,
  name: string,
  [script, ...words]: readonly [string, ...string[]],
  timeoutMs: number,
): Promise<{ exitCode: number; said: string }> {
  const stream = await enter(cluster, name, ['/bin/sh', '-c', SAYS_CODE, 'lh', script, ...words])
  const found = await readUntil(stream, /^lh-code=(\d+)$/m, timeoutMs)
  if (found !== null) return { exitCode: Number(found[1]), said: found.input.slice(0, found.index).trim() }
  throw new LonghaulError({
    code: 'Sandbox.EngineUnavailable',
    message: `A script in a pod did not report its end within ${timeoutMs / 1000} s, or the connection to the pod broke`,
    details: { name },
  })
}
