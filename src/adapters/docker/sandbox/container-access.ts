import { LonghaulError } from '../../../contracts/errors.ts'
import { endedFromInside, mayStartAgain, startOnce, wasLeftAlone } from '../container/container-state.ts'
import { type EnginePulse, createEnginePulse, ignoreGone, isStatus, toSandboxError } from '../engine/engine-errors.ts'
import type { Engine } from '../engine/engine.ts'
import { CONNECT_COMMAND, RunnerStreamBroken, createConnection, openRunnerExec } from './runner-connection.ts'
import { NO_ISOLATION, type RunnerAccess, type RunnerSilence, sandboxError } from './runner-pool.ts'

/** Gives access to runners in containers of a Docker engine. */
export function createContainerAccess({ engine }: { engine: Engine }): RunnerAccess {
  const pulse = createEnginePulse({ ping: () => engine.docker.ping() })
  return {
    pulse,
    connect: async (name) => createConnection(await openRunnerExec(engine, name, CONNECT_COMMAND)),
    requireRunning: (name, cause, askedMs) => requireRunning(engine, name, cause, askedMs),
    judgeSilence: (silence) => judgeSilence(engine, pulse, silence),
    async kill(name) {
      await engine.docker.getContainer(name).kill({ signal: 'SIGKILL' }).catch(ignoreGone)
    },
  }
}

/** Returns if another connection may succeed; throws otherwise. */
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

/**
 * Attributes the silence of a runner whose container still runs. The agent's processes have stopped, killed or starved the runner,
 * unless the host observed another cause: an API call on the container, or an engine or a machine that was itself silent.
 */
async function judgeSilence(
  engine: Engine,
  pulse: EnginePulse,
  { name, why, sinceMs, cause }: RunnerSilence,
): Promise<LonghaulError> {
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
