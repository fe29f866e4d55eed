import type { Readable } from 'node:stream'
import type { Container, ContainerInspectInfo, ContainerInspectOptions } from 'dockerode'
import { isStatus } from '../engine/engine-errors.ts'
import type { Engine } from '../engine/engine.ts'
import { LonghaulError } from '../../../contracts/errors.ts'

type State = ContainerInspectInfo['State']

/** API calls that reach a container through its engine. No process inside can make one. */
const ORDERS: ReadonlySet<string> = new Set(['kill', 'stop', 'restart', 'pause', 'unpause', 'destroy'])

/** Larger than the difference between the clocks of this process and a loaded engine. */
const CLOCK_SLACK_MS = 2_000

/**
 * Returns whether a stopped container was ended by a process inside it: the engine saw the first process exit and recorded no API call
 * that ended it. If the engine has restarted or dropped its events since, it saw no exit, and the container is not blamed.
 * @param askedMs when the unanswered request was sent to the runner; null if none was under way
 */
export async function endedFromInside(
  engine: Engine,
  container: { id: string; state: State },
  askedMs: number | null,
): Promise<boolean> {
  const { state } = container
  const actions = await actionsSince(engine, container.id, Date.parse(state.StartedAt))
  if (!actions.includes('die') || actions.some((action) => ORDERS.has(action))) return false
  // The first process exits with 0 on its own only when the lease expires. Requests renew the lease, so a runner that was still serving
  // has kept it.
  if (state.ExitCode !== 0) return true
  return askedMs !== null && Date.parse(state.FinishedAt) > askedMs + CLOCK_SLACK_MS
}

/** Returns whether a running container has received no API call since a moment, and has never been restarted. */
export async function wasLeftAlone(
  engine: Engine,
  container: { id: string; state: State },
  sinceMs: number,
): Promise<boolean> {
  if (wasStartedAgain(container.state)) return false
  const actions = await actionsSince(engine, container.id, sinceMs)
  return !actions.some((action) => ORDERS.has(action))
}

/** If the container was restarted, its processes died with the earlier start, and only an API call restarts it. */
function wasStartedAgain({ FinishedAt: finished }: State): boolean {
  return Date.parse(finished) > 0
}

/** Returns whether a stopped container may be started again: disk and journal are intact, only the processes are gone. A restart of
 *  the engine or the machine ends the main process by a signal. After an expired lease the main process exits with 0, and the
 *  sandbox stays ended. */
export function mayStartAgain({ Status: status, ExitCode: exitCode }: State): boolean {
  return status === 'exited' && exitCode !== 0
}

export async function startOnce(container: Container): Promise<void> {
  await container.start().catch((error: unknown) => {
    // 304: a concurrent attempt has started it already.
    if (!isStatus(error, 304)) throw error
  })
}

/** Returns the container's events since a moment, in order. The engine keeps its last few hundred events and loses them when it exits. */
async function actionsSince(engine: Engine, id: string, sinceMs: number): Promise<string[]> {
  const now = Date.now()
  const stream = await engine.docker.getEvents({
    since: Math.max(0, Math.floor((sinceMs - CLOCK_SLACK_MS) / 1000)),
    // With an end in the past the engine sends the stored events and closes the stream.
    until: Math.ceil(now / 1000),
    filters: { container: [id] },
  })
  let text = ''
  // The client sets no deadline for event streams.
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

/** More than honest work writes: if the disk is full and the container wrote more than this, the agent filled it. */
const LARGE = { bytes: GIB, files: 65_536 }

interface Written {
  bytes: number
  files: number
}

/** Returns whether a container that wrote so much has filled a full disk itself. @param limit of what it may write */
export function isLargePart(written: Written, limit: { bytes: number }): boolean {
  return written.bytes >= Math.min(LARGE.bytes, limit.bytes / 2) || written.files >= LARGE.files
}

/**
 * Checks a runner's report of a loss against what the host observes. If a turn's processes are gone, the container was ended from
 * inside, unless it was restarted. A full disk is the host's fault, unless this container has filled a large part of it.
 * @param measure counts bytes and files of a container, unlinked ones too; null if it cannot. The engine counts only the bytes of named files
 */
export async function attributeLoss(
  engine: Engine,
  name: string,
  error: unknown,
  measure: (name: string) => Promise<Written | null> = async () => null,
): Promise<unknown> {
  if (!(error instanceof LonghaulError) || !isAnswer(error)) return error
  if (error.code !== 'Sandbox.Ended' && error.code !== 'Sandbox.OutOfDisk') return error
  try {
    const container = engine.docker.getContainer(name)
    if (error.code === 'Sandbox.Ended') {
      const { State: state } = await container.inspect()
      return wasStartedAgain(state) ? as('Sandbox.Lost', error) : error
    }
    // The client's types lack a field that the engine returns only on request.
    const { SizeRw: written = 0, HostConfig: settings } = (await container.inspect({
      size: true,
    } as ContainerInspectOptions)) as ContainerInspectInfo & { SizeRw?: number }
    const gibibytes = /^(\d+)g$/i.exec(settings.StorageOpt?.['size'] ?? '')?.[1]
    const limit = { bytes: gibibytes === undefined ? Number.POSITIVE_INFINITY : Number(gibibytes) * GIB }
    // Negative if the engine could not measure it: the tree is deeper than any path, which no honest program makes.
    if (written < 0 || isLargePart({ bytes: written, files: 0 }, limit)) return as('Sandbox.Ended', error)
    const counted = await measure(name)
    return counted !== null && isLargePart(counted, limit) ? as('Sandbox.Ended', error) : error
  } catch {
    // If the engine cannot be asked, no cause is ruled out.
    return error.code === 'Sandbox.Ended' ? as('Sandbox.Lost', error) : error
  }
}

/** Returns whether the runner itself reported the error; otherwise the connection failed. */
function isAnswer({ details }: LonghaulError): boolean {
  return 'answer' in details
}

function as(code: 'Sandbox.Lost' | 'Sandbox.Ended', { message, details }: LonghaulError): LonghaulError {
  return new LonghaulError({ code, message, details })
}
