import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { PlacementRecord } from '../../contracts/episodes.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { episodeId, episodeKeys } from '../../contracts/keys.ts'
import type { SandboxHandle } from '../../contracts/sandbox.types.ts'
import type { EpisodeInput } from '../../contracts/workflows.types.ts'
import { readUnlessCorrupt } from '../runtime/stored-records.ts'

export interface PlacementClaim extends Pick<PlacementRecord, 'episode' | 'ownerRun' | 'hostId' | 'image'> {
  /** Number of the placement within the execution, from 1. */
  requested: number
}

/**
 * Claims the number of a placement across all executions of an episode. Containers and fences carry it, so that an execution never
 * meets the container of an earlier one. A repeated attempt finds the number that it claimed.
 */
export async function claimPlacement(store: ArtifactStore, claim: PlacementClaim): Promise<number> {
  const { episode, requested, ownerRun, hostId, image } = claim
  const ours = (await readPlacements(store, episode)).find((one) => isOf(one, claim))
  if (ours !== undefined) return ours.placement
  for (let placement = (await highestPlacement(store, episode)) + 1; ; placement++) {
    const { record, won } = await store.claimRecord<PlacementRecord>(episodeKeys.placement(episode, placement), {
      schema: 'longhaul.placement/1',
      episode,
      placement,
      ownerRun,
      requested,
      hostId,
      image,
      placedAtMs: Date.now(),
    })
    if (won || isOf(record, claim)) return placement
  }
}

/**
 * Refuses to go on in a sandbox after another execution has placed the episode anew. A server whose database was restored no longer
 * knows the execution that plays here, so nothing else tells it for as long as a heartbeat takes. A late claim of an older request of the
 * same execution is no newer placement.
 * @throws LonghaulError `Sandbox.Foreign`
 */
export async function requireNewestPlacement(
  store: Pick<ArtifactStore, 'readRecord'>,
  input: EpisodeInput & { sandbox: SandboxHandle },
): Promise<void> {
  const { placement, ownerRun } = input.sandbox
  if (placement === undefined || ownerRun === undefined) return
  const episode = episodeId(input)
  const next = await readUnlessCorrupt<PlacementRecord>(store, episodeKeys.placement(episode, placement + 1))
  if (next === null || next.ownerRun === ownerRun) return
  throw new LonghaulError({
    code: 'Sandbox.Foreign',
    message: 'Another execution of the episode plays it in a newer sandbox',
    details: { episode, placement, newer: next.placement, newerOwner: next.ownerRun },
  })
}

/** Placements of all executions of an episode, without corrupt records. */
export async function readPlacements(
  store: Pick<ArtifactStore, 'list' | 'readRecord'>,
  episode: string,
): Promise<PlacementRecord[]> {
  const keys = await store.list(episodeKeys.placements(episode))
  const records = await Promise.all(keys.map((key) => readUnlessCorrupt<PlacementRecord>(store, key)))
  return records.filter((record) => record !== null)
}

function isOf(record: PlacementRecord, { ownerRun, requested }: PlacementClaim): boolean {
  return record.ownerRun === ownerRun && (record.requested ?? record.placement) === requested
}

/** Counts keys, because a corrupt record has used up its number. */
async function highestPlacement(store: ArtifactStore, episode: string): Promise<number> {
  const keys = await store.list(episodeKeys.placements(episode))
  return Math.max(0, ...keys.map((key) => Number(/(\d+)\.json$/.exec(key)?.[1] ?? 0)))
}
