import { sha256Hex } from '../../../platform/hash.ts'

/** Labels of everything Longhaul creates in an engine (they cannot change after creation). */
export const LABELS = {
  project: 'longhaul.project',
  run: 'longhaul.run',
  episode: 'longhaul.episode',
  role: 'longhaul.role',
  /** Placement of the episode: the fence at creation. */
  fence: 'longhaul.fence',
  /** Milliseconds since 1970. */
  created: 'longhaul.created',
  leaseMs: 'longhaul.lease-ms',
  /** After this long the reaper removes it, even while its owner runs. */
  maxLifeMs: 'longhaul.max-life-ms',
  owner: 'longhaul.owner',
  host: 'longhaul.host',
  /** Execution of the owner that created it. */
  ownerRun: 'longhaul.owner-run',
  /** Identity of the Temporal namespace that knows the owner; absent where the owner is no workflow. Two stacks share an
   *  engine, and a workflow that one server does not know may be alive on the other. */
  namespaceId: 'longhaul.namespace-id',
  image: 'longhaul.image-digest',
  /** What the sandbox asks its host for, as `0.5/2048`: processors and MiB. */
  request: 'longhaul.request',
  /** Processors that the container is pinned to. */
  cpus: 'longhaul.cpus',
} as const

export const PROJECT = 'longhaul'

/** For the list filters of the Engine API. */
export const PROJECT_FILTER = `${LABELS.project}=${PROJECT}`

/** Labels as facts. A number that no label says is infinite: what we do not know must never look overdue. */
export interface LabelFacts {
  run: string
  episode: string
  role: string
  fence: number
  owner: string
  ownerRun: string
  namespaceId: string
  host: string
  /** Null where the label is absent or unreadable: the container holds no place. */
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

/** A name the engine accepts, equal for equal parts. Characters that are not allowed, and length, cost a hash suffix,
 *  so that two different ids never share a container. */
export function containerName(parts: readonly (string | number)[]): string {
  const plain = ['lh', ...parts].join('-')
  // A slash is how ids are built, not a rare character: it alone needs no hash.
  const safe = plain.replaceAll('/', '-').replaceAll(/[^A-Za-z0-9_.-]/g, '_')
  if (safe === plain.replaceAll('/', '-') && safe.length <= MAX_LENGTH) return safe
  const hash = sha256Hex(plain).slice(0, 12)
  return `${safe.slice(0, MAX_LENGTH - hash.length - 1)}-${hash}`
}
