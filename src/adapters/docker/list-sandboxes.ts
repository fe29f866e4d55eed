import type { Engine } from './engine.ts'
import { LABELS, PROJECT } from './labels.ts'

/** A container of ours as its labels tell it. */
export interface ListedSandbox {
  name: string
  containerId: string
  run: string
  episode: string
  /** `agent`, `grader`, `gate`, or `build` for the moment that an image is made. */
  role: string
  owner: string
  host: string
  isRunning: boolean
  ageMs: number
  leaseMs: number
  maxLifeMs: number
}

export interface ListSandboxesInput {
  engine: Engine
  /** @default all runs */
  run?: string
}

export async function listSandboxes({ engine, run }: ListSandboxesInput): Promise<ListedSandbox[]> {
  const label = [`${LABELS.project}=${PROJECT}`, ...(run === undefined ? [] : [`${LABELS.run}=${run}`])]
  const containers = await engine.docker.listContainers({ all: true, filters: { label } })
  const now = Date.now()
  return containers.map(({ Id, Names, Labels: labels, State }) => ({
    name: (Names[0] ?? Id).replace(/^\//, ''),
    containerId: Id,
    run: labels[LABELS.run] ?? '',
    episode: labels[LABELS.episode] ?? '',
    role: labels[LABELS.role] ?? '',
    owner: labels[LABELS.owner] ?? '',
    host: labels[LABELS.host] ?? '',
    isRunning: State === 'running',
    ageMs: now - Number(labels[LABELS.created] ?? 0),
    leaseMs: Number(labels[LABELS.leaseMs] ?? 0),
    maxLifeMs: Number(labels[LABELS.maxLifeMs] ?? 0),
  }))
}
