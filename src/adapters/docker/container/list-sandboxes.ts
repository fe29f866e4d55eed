import type { Engine } from '../engine/engine.ts'
import { type LabelFacts, PROJECT_FILTER, LABELS, readLabels } from './labels.ts'

/** One of our containers, described by its labels. */
export interface ListedSandbox extends LabelFacts {
  name: string
  containerId: string
  /** `agent`, `grader`, `gate`, or `build` while an image is made. */
  role: string
  isRunning: boolean
  state: 'created' | 'running' | 'ended'
}

export interface ListSandboxesInput {
  engine: Engine
  /** @default all runs */
  run?: string
  /** Milliseconds since 1970. @default the clock */
  now?: number
  signal?: AbortSignal
}

export async function listSandboxes(input: ListSandboxesInput): Promise<ListedSandbox[]> {
  const { engine, run, now = Date.now(), signal } = input
  const label = [PROJECT_FILTER, ...(run === undefined ? [] : [`${LABELS.run}=${run}`])]
  const containers = await engine.docker.listContainers({
    all: true,
    filters: { label },
    ...(signal === undefined ? {} : { abortSignal: signal }),
  })
  return containers.map(({ Id, Names, Labels: labels, State }) => ({
    ...readLabels(labels, now),
    name: (Names[0] ?? Id).replace(/^\//, ''),
    containerId: Id,
    isRunning: State === 'running',
    state: stateOf(State),
  }))
}

/** A paused or restarting container counts as alive; one that is being removed has ended. */
function stateOf(state: string): ListedSandbox['state'] {
  if (state === 'created') return 'created'
  return state === 'exited' || state === 'dead' || state === 'removing' ? 'ended' : 'running'
}

/** Counts the graders and gates that run for a Temporal namespace. */
export function countGraders(all: readonly ListedSandbox[], namespaceId: string): number {
  return all.filter(
    ({ role, state, namespaceId: owners }) => role !== 'agent' && state !== 'ended' && owners === namespaceId,
  ).length
}
