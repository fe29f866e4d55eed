import type { Readable } from 'node:stream'

import type { ContainerInspectInfo } from 'dockerode'

import type { Engine } from '../engine/engine.ts'

type State = ContainerInspectInfo['State']

/** Orders that reach a container through its engine: nothing inside can give one. */
const ORDERS: ReadonlySet<string> = new Set(['kill', 'stop', 'restart', 'pause', 'unpause', 'destroy'])

/** Beyond what clocks of one machine and a loaded engine differ by. */
const CLOCK_SLACK_MS = 2_000

/**
 * Whether a container that does not run was ended by what ran inside it: the engine saw its first process end and had no order for it.
 * An engine that restarted in between, or that has forgotten, saw no end: that is nothing of the container's.
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
export function wasStartedAgain({ FinishedAt: finished }: State): boolean {
  return Date.parse(finished) > 0
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
