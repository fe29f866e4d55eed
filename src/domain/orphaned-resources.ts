/** A resource of Longhaul in an engine, as described by its labels and state. Ages are in milliseconds. */
export interface OrphanedResourceFacts {
  kind: 'container' | 'network' | 'volume'
  role: string
  /** Identity of the Temporal namespace that knows the owner; empty if the owner is not a workflow. */
  namespaceId: string
  host: string
  ageMs: number
  /** Infinity if no label states it. */
  leaseMs: number
  maxLifeMs: number
  /** `created` never ran; networks and volumes are `ready`. */
  state: 'created' | 'running' | 'ended' | 'ready'
  /** Time since it ended; null for all other states. */
  endedForMs: number | null
  /** Whether the container's own lease watchdog ended it, so that its lease had expired. */
  endedByLease: boolean
}

/** The viewpoint of the decision: a sandbox host of one namespace. */
export interface Reaper {
  host: string
  /** Null if the server has not reported it yet; no resource is then known to belong to this namespace. */
  namespaceId: string | null
}

export type KeepReason =
  | 'other-stack'
  | 'other-host'
  | 'namespace-unknown'
  | 'young-build'
  | 'owner-runs'
  | 'owner-unanswered'
  | 'owner-is-no-workflow'
  | 'in-use'

export type RemoveReason =
  | 'abandoned-build'
  | 'past-max-life'
  | 'lease-over'
  | 'never-started'
  | 'owner-closed'
  | 'owner-unknown'
  | 'superseded'

export type ReapDecision = { kind: 'keep'; why: KeepReason } | { kind: 'remove'; why: RemoveReason }

/** The server's current answer about a workflow id. */
export type OwnerState = { kind: 'running'; runId: string } | { kind: 'closed' } | { kind: 'unknown' }

/** An image build takes a second, and at most this long with the deadlines of its four requests. An older build container was left
 *  by a killed process. */
const BUILD_LIFE_MS = 20 * 60_000

/**
 * First half of the decision, without asking the owner. A resource of another host is never touched at any age. One of another namespace
 * on this host is touched only once its lease is over, when no owner can use it any more: this Temporal server cannot tell whether its
 * owner is open. It may be what a lost database has left, and nobody else would remove it.
 */
export function decideReap(facts: OrphanedResourceFacts, reaper: Reaper): ReapDecision | { kind: 'ask-owner' } {
  const { namespaceId, host, role, ageMs, maxLifeMs } = facts
  if (host !== '' && host !== reaper.host) return keep('other-host')
  if (role === 'build') return ageMs > BUILD_LIFE_MS ? remove('abandoned-build') : keep('young-build')
  if (namespaceId !== '' && reaper.namespaceId === null) return keep('namespace-unknown')
  const over = decideByLease(facts)
  if (namespaceId !== '' && namespaceId !== reaper.namespaceId) return over ?? keep('other-stack')
  if (ageMs > maxLifeMs) return remove('past-max-life')
  if (over !== null) return over
  return namespaceId === '' ? keep('owner-is-no-workflow') : { kind: 'ask-owner' }
}

function decideByLease({
  state,
  endedByLease,
  endedForMs,
  ageMs,
  leaseMs,
}: OrphanedResourceFacts): ReapDecision | null {
  if (state === 'ended' && (endedByLease || (endedForMs ?? 0) > leaseMs)) return remove('lease-over')
  return state === 'created' && ageMs > leaseMs ? remove('never-started') : null
}

export interface OwnedPlacement {
  role: string
  /** Run id of the owner's execution that created it. */
  ownerRun: string
  /** Whether the same execution has placed the episode again since. */
  hasNewerPlacement: boolean
}

/**
 * Second half: the owner's state decides. Only a placement's own execution can supersede it, because another execution of the same id
 * (a reset, a repetition) may have adopted the container with its old labels.
 * @param state null if the server could not be asked; then only the maximum life ends it
 */
export function judgeOwner(state: OwnerState | null, placement: OwnedPlacement): ReapDecision {
  if (state === null) return keep('owner-unanswered')
  if (state.kind === 'closed') return remove('owner-closed')
  if (state.kind === 'unknown') return remove('owner-unknown')
  const isOwn = placement.ownerRun === state.runId
  return placement.role === 'agent' && isOwn && placement.hasNewerPlacement ? remove('superseded') : keep('owner-runs')
}

function keep(why: KeepReason): ReapDecision {
  return { kind: 'keep', why }
}

function remove(why: RemoveReason): ReapDecision {
  return { kind: 'remove', why }
}
