import {
  decideReap,
  judgeOwner,
  type KeepReason,
  type ReapDecision,
  type OwnerState,
  type Reaper,
  type RemoveReason,
} from '../../../domain/orphaned-resources.ts'
import { flattenWrittenFolder } from '../container/written-folder.ts'
import { ignoreGone, isStatus } from '../engine/engine-errors.ts'
import type { Engine } from '../engine/engine.ts'
import { type OrphanedResource, listOrphanedResources } from './list-orphaned.ts'
import { createSlots } from '../../../platform/limiter.ts'

/** Looks up the state of the owners of resources. */
export interface OwnerRegistry {
  /** Null if the server cannot be reached. Never rejects. */
  stateOf(workflowId: string, signal: AbortSignal): Promise<OwnerState | null>
  /** Returns whether the execution has placed the episode again after this placement. Never rejects; false in doubt. */
  hasPlacementAfter(placement: { episode: string; fence: number; ownerRun: string }): Promise<boolean>
}

/** A system that holds our resources: a Docker engine, or a namespace of a cluster. */
export interface ResourceHolder {
  list(input: { now: number; signal: AbortSignal }): Promise<OrphanedResource[]>
  remove(resource: OrphanedResource, signal: AbortSignal): Promise<'removed' | 'in-use' | { error: string }>
}

export function resourcesOfEngine(engine: Engine): ResourceHolder {
  return {
    list: (input) => listOrphanedResources({ engine, ...input }),
    remove: (resource, signal) => remove(engine, resource, signal),
  }
}

export interface ReapOrphanedInput {
  holder: ResourceHolder
  reaper: Reaper
  owners: OwnerRegistry
  /** Reports what it would remove, and removes nothing. @default false */
  isDryRun?: boolean
  /** Milliseconds since 1970, by a monotonic clock. @default the clock */
  now?: number
  signal: AbortSignal
}

/** More concurrent removals slow an engine down. */
const AT_ONCE = 6

export interface ReapedThing {
  kind: OrphanedResource['kind']
  name: string
  run: string
  episode: string
  role: string
  ageS: number
}

export interface ReapReport {
  removed: (ReapedThing & { why: RemoveReason })[]
  kept: (ReapedThing & { why: KeepReason })[]
  /** Overdue resources that the engine failed to remove; the next sweep tries again. */
  failed: (ReapedThing & { why: RemoveReason; error: string })[]
}

/** Removes orphaned resources with their volumes. Considers only resources with our project label. Two reapers may run concurrently,
 *  because a resource that is already gone counts as removed. */
export async function reapOrphaned(input: ReapOrphanedInput): Promise<ReapReport> {
  const { holder, isDryRun = false, now = Date.now(), signal } = input
  const report: ReapReport = { removed: [], kept: [], failed: [] }
  const resources = await holder.list({ now, signal })
  const decide = createDecider(input, resources)
  const handle = async (resource: OrphanedResource): Promise<void> => {
    signal.throwIfAborted()
    const decision = await decide(resource)
    const thing = describe(resource)
    if (decision.kind === 'keep') {
      report.kept.push({ ...thing, why: decision.why })
      return
    }
    const { why } = decision
    const end = isDryRun ? 'removed' : await holder.remove(resource, signal)
    if (end === 'removed') report.removed.push({ ...thing, why })
    else if (end === 'in-use') report.kept.push({ ...thing, why: 'in-use' })
    else report.failed.push({ ...thing, why, error: end.error })
  }
  // Concurrent and oldest first, so that a worker that is soon killed again removes as much as possible.
  const slots = createSlots(AT_ONCE)
  const oldestFirst = resources.toSorted((one, other) => other.ageMs - one.ageMs)
  const handleAll = async (isNow: (resource: OrphanedResource) => boolean): Promise<void> => {
    await Promise.all(oldestFirst.filter(isNow).map((resource) => slots.use(() => handle(resource))))
  }
  await handleAll(({ kind }) => kind === 'container')
  // Existing containers would keep networks and volumes in use.
  await handleAll(({ kind }) => kind !== 'container')
  return report
}

/** Each owner is looked up once per sweep. */
function createDecider({ reaper, owners, signal }: ReapOrphanedInput, resources: OrphanedResource[]) {
  const states = new Map<string, Promise<OwnerState | null>>()
  const stateOf = (owner: string): Promise<OwnerState | null> => {
    const known = states.get(owner) ?? owners.stateOf(owner, signal)
    states.set(owner, known)
    return known
  }
  return async (resource: OrphanedResource): Promise<ReapDecision> => {
    const first = decideReap(resource, reaper)
    if (first.kind !== 'ask-owner') return first
    const { owner, ownerRun, episode, role, fence } = resource
    const state = await stateOf(owner)
    const isHere = resources.some(
      (other) => other.episode === episode && other.role === role && other.ownerRun === ownerRun && other.fence > fence,
    )
    const mayBeSuperseded = role === 'agent' && state?.kind === 'running' && state.runId === ownerRun
    const hasNewerPlacement =
      mayBeSuperseded && (isHere || (await owners.hasPlacementAfter({ episode, fence, ownerRun })))
    return judgeOwner(state, { role, ownerRun, hasNewerPlacement })
  }
}

async function remove(
  engine: Engine,
  { kind, id }: OrphanedResource,
  signal: AbortSignal,
): Promise<'removed' | 'in-use' | { error: string }> {
  const { docker } = engine
  try {
    if (kind === 'container') {
      await flattenWrittenFolder(engine, id)
      await docker.getContainer(id).remove({ force: true, v: true, abortSignal: signal }).catch(ignoreGone)
    } else if (kind === 'network') {
      await docker.getNetwork(id).remove({ abortSignal: signal })
    } else {
      await docker.getVolume(id).remove({ abortSignal: signal })
    }
    return 'removed'
  } catch (error) {
    signal.throwIfAborted()
    if (isStatus(error, 404)) return 'removed'
    // 403: the network has members; 409: the volume has users.
    if (kind !== 'container' && isStatus(error, 403, 409)) return 'in-use'
    return { error: error instanceof Error ? error.message : String(error) }
  }
}

function describe({ kind, name, run, episode, role, ageMs }: OrphanedResource): ReapedThing {
  return { kind, name, run, episode, role, ageS: Math.round(ageMs / 1000) }
}
