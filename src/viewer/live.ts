/** News of a live run, polled from its records, since workers on any host may write them. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { episodeKeys } from '../contracts/keys.ts'
import type { EpisodeIndex } from './episode-index.ts'
import type { EpisodeRow, LiveMessage } from './pages.types.ts'
import { readTurn } from './read-episode.ts'

/** A turn should be on the page within two seconds. */
const TURN_POLL_MS = 500
const ROWS_POLL_MS = 2_000

export interface FollowEpisodeInput {
  store: ArtifactStore
  episode: string
  /** The first turn that the page lacks, or has without its observation. */
  from: number
  signal: AbortSignal
}

/** Yields each turn when it is sampled and again with its observation; ends after the episode's last record. */
export async function* followEpisode({
  store,
  episode,
  from,
  signal,
}: FollowEpisodeInput): AsyncGenerator<LiveMessage> {
  let next = from
  let isHalfSent = false
  while (!signal.aborted) {
    // Checked before the turns are read: all of them are written before the last record.
    const hasEnded = (await store.read(episodeKeys.result(episode))) !== null
    for (let turn = await readTurn(store, episode, next); turn !== null; turn = await readTurn(store, episode, next)) {
      if (turn.observation !== null || !isHalfSent) yield { kind: 'turn', turn }
      isHalfSent = turn.observation === null
      if (isHalfSent) break
      next += 1
    }
    if (hasEnded) {
      yield { kind: 'ended' }
      return
    }
    await pause(TURN_POLL_MS, signal)
  }
}

/** Yields rows that are new or have changed since the page read them; another first read would take as long. */
export async function* followRun(index: EpisodeIndex, signal: AbortSignal): AsyncGenerator<LiveMessage> {
  const told = new Map<string, string>()
  const keyOf = ({ state, verdict }: EpisodeRow): string => `${state} ${verdict ?? ''}`
  for (const row of index.lastRows() ?? (await index.rows())) told.set(row.episode, keyOf(row))
  while (!signal.aborted) {
    await pause(ROWS_POLL_MS, signal)
    const rows = (await index.rows()).filter((row) => told.get(row.episode) !== keyOf(row))
    for (const row of rows) told.set(row.episode, keyOf(row))
    if (rows.length > 0) yield { kind: 'rows', rows }
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined)
}
