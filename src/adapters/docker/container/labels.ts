import { sha256Hex } from '../../../platform/hash.ts'

/** Labels of everything that Longhaul creates in an engine. They cannot change after creation. */
export const LABELS = {
  project: 'longhaul.project',
  run: 'longhaul.run',
  episode: 'longhaul.episode',
  role: 'longhaul.role',
  /** Placement number of the episode, which is the fence at creation. */
  fence: 'longhaul.fence',
  /** Milliseconds since 1970. */
  created: 'longhaul.created',
  leaseMs: 'longhaul.lease-ms',
  /** The reaper removes the resource at this age, even if its owner still runs. */
  maxLifeMs: 'longhaul.max-life-ms',
  owner: 'longhaul.owner',
  host: 'longhaul.host',
  /** Run id of the workflow execution that created it. */
  ownerRun: 'longhaul.owner-run',
  /** Identity of the Temporal namespace that knows the owner; absent if the owner is not a workflow. Two stacks can share an engine,
   *  and a workflow that one server does not know may be alive on the other. */
  namespaceId: 'longhaul.namespace-id',
  image: 'longhaul.image-digest',
  /** What the sandbox requests from its host, as `0.5/2048`: processors and MiB. */
  request: 'longhaul.request',
  /** Processors to which the container is pinned. */
  cpus: 'longhaul.cpus',
} as const

export const PROJECT = 'longhaul'

/** For the list filters of the Engine API. */
export const PROJECT_FILTER = `${LABELS.project}=${PROJECT}`

/** Parsed labels. A number without a label is infinite, because a resource of unknown age must never look overdue. */
export interface LabelFacts {
  run: string
  episode: string
  role: string
  fence: number
  owner: string
  ownerRun: string
  namespaceId: string
  host: string
  /** Null if the label is absent or unreadable: the container then occupies no place. */
  request: { cpus: number; memoryMiB: number } | null
  ageMs: number
  leaseMs: number
  maxLifeMs: number
}

export function readLabels(labels: Record<string, string>, now: number): LabelFacts {
  const text = (label: string): string => labels[label] ?? ''
  const number = (label: string): number | null => {
    const value = labels[label]
    return value === undefined || value === '' || !Number.isFinite(Number(value)) ? null : Number(value)
  }
  return {
    run: text(LABELS.run),
    episode: text(LABELS.episode),
    role: text(LABELS.role),
    fence: number(LABELS.fence) ?? 0,
    owner: text(LABELS.owner),
    ownerRun: text(LABELS.ownerRun),
    namespaceId: text(LABELS.namespaceId),
    host: text(LABELS.host),
    request: readRequest(text(LABELS.request)),
    ageMs: now - (number(LABELS.created) ?? now),
    leaseMs: number(LABELS.leaseMs) ?? Number.POSITIVE_INFINITY,
    maxLifeMs: number(LABELS.maxLifeMs) ?? Number.POSITIVE_INFINITY,
  }
}

export function showRequest({ cpus, memoryMiB }: { cpus: number; memoryMiB: number }): string {
  return `${cpus}/${memoryMiB}`
}

function readRequest(text: string): LabelFacts['request'] {
  const [, cpus, memoryMiB] = /^(\d+(?:\.\d+)?)\/(\d+(?:\.\d+)?)$/.exec(text) ?? []
  return cpus === undefined || memoryMiB === undefined ? null : { cpus: Number(cpus), memoryMiB: Number(memoryMiB) }
}

const MAX_LENGTH = 120

/** Returns a name that the engine accepts, equal for equal parts. Invalid characters or excessive length add a hash suffix, so that
 *  two different ids never share a container. */
export function containerName(parts: readonly (string | number)[]): string {
  const plain = ['lh', ...parts].join('-')
  // Ids contain slashes by construction, so a slash alone needs no hash.
  const safe = plain.replaceAll('/', '-').replaceAll(/[^A-Za-z0-9_.-]/g, '_')
  if (safe === plain.replaceAll('/', '-') && safe.length <= MAX_LENGTH) return safe
  const hash = sha256Hex(plain).slice(0, 12)
  return `${safe.slice(0, MAX_LENGTH - hash.length - 1)}-${hash}`
}
