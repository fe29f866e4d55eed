import type { Readable } from 'node:stream'
import type { Container, ContainerInspectInfo, ContainerInspectOptions } from 'dockerode'
import { isStatus } from '../engine/engine-errors.ts'
import type { Engine } from '../engine/engine.ts'
import { LonghaulError } from '../../../contracts/errors.ts'

type State = ContainerInspectInfo['State']

/** Orders that reach a container through its engine: nothing inside can give one. */
const ORDERS: ReadonlySet<string> = new Set(['kill', 'stop', 'restart', 'pause', 'unpause', 'destroy'])

/** More than the clocks of this process and a loaded engine differ by. */
const CLOCK_SLACK_MS = 2_000

/**
 * Whether a container that does not run was ended by what ran inside it: the engine saw its first process end and had no order for it.
 * An engine that restarted since, or that dropped its events, saw no end: such an end is not the container's doing.
 * @param askedMs when a request went out that its runner has not answered; null where none was under way
 */
export async function endedFromInside(
  engine: Engine,
  container: { id: string; state: State },
  askedMs: number | null,
): Promise<boolean> {
  const { state } = container
  const actions = await actionsSince(engine, container.id, Date.parse(state.StartedAt))
  if (!actions.includes('die') || actions.some((action) => ORDERS.has(action))) return false
  // By itself the first process ends with 0, when the lease runs out. Requests renew it, so a runner that still ran has kept it.
  if (state.ExitCode !== 0) return true
  return askedMs !== null && Date.parse(state.FinishedAt) > askedMs + CLOCK_SLACK_MS
}

/** Whether a container that runs has been left alone from outside since a moment, and since it was made never started anew. */
export async function wasLeftAlone(
  engine: Engine,
  container: { id: string; state: State },
  sinceMs: number,
): Promise<boolean> {
  if (wasStartedAgain(container.state)) return false
  const actions = await actionsSince(engine, container.id, sinceMs)
  return !actions.some((action) => ORDERS.has(action))
}

/** Its processes have died with an earlier start, and only an order starts a container. */
function wasStartedAgain({ FinishedAt: finished }: State): boolean {
  return Date.parse(finished) > 0
}

/** Whether a stopped container may be started again: disk and journal are intact, only the processes are gone. A restart of the
 *  engine or the machine ends the main process by a signal. When the lease expires the main process exits with 0: such a
 *  sandbox stays ended. */
export function mayStartAgain({ Status: status, ExitCode: exitCode }: State): boolean {
  return status === 'exited' && exitCode !== 0
}

export async function startOnce(container: Container): Promise<void> {
  await container.start().catch((error: unknown) => {
    // 304: a concurrent attempt has started it.
    if (!isStatus(error, 304)) throw error
  })
}

/** What the engine says of a container since a moment, in order. It keeps its last few hundred events and forgets them when it ends. */
async function actionsSince(engine: Engine, id: string, sinceMs: number): Promise<string[]> {
  const now = Date.now()
  const stream = await engine.docker.getEvents({
    since: Math.max(0, Math.floor((sinceMs - CLOCK_SLACK_MS) / 1000)),
    // An end in the past: the engine sends what it has and closes.
    until: Math.ceil(now / 1000),
    filters: { container: [id] },
  })
  let text = ''
  // Requests for events have no deadline of their own.
  const late = setTimeout(() => (stream as Readable).destroy(new Error('no events within 20 s')), 20_000)
  try {
    for await (const chunk of stream) text += String(chunk)
  } finally {
    clearTimeout(late)
  }
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as { Action?: string; status?: string; timeNano?: number })
    .filter(({ timeNano = now * 1e6 }) => timeNano / 1e6 >= sinceMs - CLOCK_SLACK_MS)
    .map(({ Action: action, status }) => action ?? status ?? '')
}

const GIB = 1024 ** 3

/** What honest work may fill: a full disk after more than this is the agent's own doing. */
const LARGE_BYTES = GIB

/**
 * What a runner says of its sandbox, judged by what the host sees of it. A turn whose processes are gone was ended from inside, unless
 * the container was started anew; a full disk is the host's, unless this container has filled a good part of it.
 */
export async function attributeLoss(engine: Engine, name: string, error: unknown): Promise<unknown> {
  if (!(error instanceof LonghaulError) || !isAnswer(error)) return error
  if (error.code !== 'Sandbox.Ended' && error.code !== 'Sandbox.OutOfDisk') return error
  try {
    const container = engine.docker.getContainer(name)
    if (error.code === 'Sandbox.Ended') {
      const { State: state } = await container.inspect()
      return wasStartedAgain(state) ? as('Sandbox.Lost', error) : error
    }
    // Their types do not have what is only told on request.
    const { SizeRw: written = 0, HostConfig: settings } = (await container.inspect({
      size: true,
    } as ContainerInspectOptions)) as ContainerInspectInfo & { SizeRw?: number }
    const limit = /^(\d+)g$/i.exec(settings.StorageOpt?.['size'] ?? '')?.[1]
    const large = limit === undefined ? LARGE_BYTES : Math.min(LARGE_BYTES, (Number(limit) * GIB) / 2)
    // Negative where the engine could not measure it: a tree deeper than any path, which no honest program makes.
    return written < 0 || written >= large ? as('Sandbox.Ended', error) : error
  } catch {
    // An engine that cannot be asked rules nothing out.
    return error.code === 'Sandbox.Ended' ? as('Sandbox.Lost', error) : error
  }
}

/** Whether the runner itself said so, and not the connection to it. */
function isAnswer({ details }: LonghaulError): boolean {
  return 'answer' in details
}

function as(code: 'Sandbox.Lost' | 'Sandbox.Ended', { message, details }: LonghaulError): LonghaulError {
  return new LonghaulError({ code, message, details })
}
