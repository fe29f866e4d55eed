/** Something of ours in an engine, as its labels and its state tell it. Ages in milliseconds. */
export interface OrphanedResourceFacts {
  kind: 'container' | 'network' | 'volume'
  role: string
  /** Identity of the Temporal namespace that knows the owner; empty where the owner is no workflow. */
  namespaceId: string
  host: string
  ageMs: number
  /** Infinity where no label says it. */
  leaseMs: number
  maxLifeMs: number
  /** `created` never ran; networks and volumes are `ready`. */
  state: 'created' | 'running' | 'ended' | 'ready'
  /** Since it ended; null for everything else. */
  endedForMs: number | null
  /** Whether its own dead-man switch ended it: the lease was over at that moment. */
  endedByLease: boolean
}

/** Who looks: a sandbox host of one namespace. */
export interface Reaper {
  host: string
  /** Null where the server could not say yet: then nothing is known to be ours. */
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

/** What the server says about a workflow id, at this moment. */
export type OwnerState = { kind: 'running'; runId: string } | { kind: 'closed' } | { kind: 'unknown' }

/** Image builds take a second, and their four requests with all their deadlines this long; older ones were left by a killed process. */
const BUILD_LIFE_MS = 20 * 60_000

/**
 * First half of the decision: what follows without asking the owner. A resource of another stack or host is never touched, at
 * any age: our Temporal server cannot tell whether its owner is open.
 */
export function decideReap(facts: OrphanedResourceFacts, reaper: Reaper): ReapDecision | { kind: 'ask-owner' } {
  const { namespaceId, host, role, ageMs, leaseMs, maxLifeMs } = facts
  if (host !== '' && host !== reaper.host) return keep('other-host')
  if (role === 'build') return ageMs > BUILD_LIFE_MS ? remove('abandoned-build') : keep('young-build')
  if (namespaceId !== '' && reaper.namespaceId === null) return keep('namespace-unknown')
  if (namespaceId !== '' && namespaceId !== reaper.namespaceId) return keep('other-stack')
  if (ageMs > maxLifeMs) return remove('past-max-life')
  if (facts.state === 'ended' && (facts.endedByLease || (facts.endedForMs ?? 0) > leaseMs)) return remove('lease-over')
  if (facts.state === 'created' && ageMs > leaseMs) return remove('never-started')
  return namespaceId === '' ? keep('owner-is-no-workflow') : { kind: 'ask-owner' }
}

export interface OwnedPlacement {
  role: string
  /** Execution of the owner that created it. */
  ownerRun: string
  /** Whether the same execution has placed the episode anew since. */
  hasNewerPlacement: boolean
}

/**
 * Second half: the owner's state decides. A placement counts as superseded only by its own execution: another one of the
 * same id (a reset, a repetition) may have adopted the container under its old labels.
 * @param state null where the server could not be asked: then only its maximum life ends it
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
