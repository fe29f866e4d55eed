/** The episodes of a run, as rows of its page. */
import { type EpisodePlace, findEpisodes, placeOf } from '../activities/episode/episode-records.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import type { EpisodeRecord } from '../contracts/episodes.types.ts'
import { isLonghaulError } from '../contracts/errors.ts'
import { episodeKeys } from '../contracts/keys.ts'
import { createSlots } from '../platform/limiter.ts'
import type { EpisodeRow } from './pages.types.ts'

/** Concurrent reads: more would only queue at the disk. */
const READS = 32

export interface EpisodeIndex {
  /** In order of keys. Reads finished episodes once and the others on each call. */
  rows(): Promise<EpisodeRow[]>
  /** The result of the last `rows` call, without new reads; null before the first call. */
  lastRows(): readonly EpisodeRow[] | null
  /** Null if the run has no such episode. Only ids that this index has returned may become keys. */
  row(episode: string): Promise<EpisodeRow | null>
  /** All attempts at the same task in the same stage and iteration, this one included. */
  siblings(row: EpisodeRow): Promise<EpisodeRow[]>
}

export function createEpisodeIndex(store: ArtifactStore, run: string): EpisodeIndex {
  const finished = new Map<string, EpisodeRow>()
  const slots = createSlots(READS)

  const readRow = async (place: EpisodePlace): Promise<EpisodeRow> => {
    const known = finished.get(place.episode)
    if (known !== undefined) return known
    const row = await toRow(store, place)
    if (row.state !== 'running') finished.set(place.episode, row)
    return row
  }
  let last: readonly EpisodeRow[] | null = null
  return {
    lastRows: () => last,
    async rows() {
      const places = await findEpisodes(store, run, slots)
      const found = await Promise.all(places.map((place) => slots.use(() => readRow(place))))
      last = found
      return found
    },
    async row(episode) {
      const known = finished.get(episode)
      if (known !== undefined) return known
      return (await hasEpisode(store, run, episode)) ? readRow(placeOf(episode)) : null
    },
    async siblings({ episode }) {
      const group = episode.slice(0, episode.lastIndexOf('/'))
      const indices = await store.folders(`episodes/${group}/`)
      return Promise.all(indices.map((index) => readRow(placeOf(`${group}/${index}`))))
    },
  }
}

/** Looks up each part of the id among the existing folders before it becomes part of a path. */
async function hasEpisode(store: ArtifactStore, run: string, episode: string): Promise<boolean> {
  const [first, ...parts] = episode.split('/')
  if (first !== run || parts.length !== 4) return false
  let folder = episodeKeys.ofRun(run)
  for (const part of parts) {
    if (!(await store.folders(folder)).includes(part)) return false
    folder = `${folder}${part}/`
  }
  return true
}

async function toRow(store: ArtifactStore, place: EpisodePlace): Promise<EpisodeRow> {
  const empty = { verdict: null, reason: null, failure: null, hack: false, signs: [], audit: null }
  const unknown = { ...place, ...empty, turns: null, sampledTokens: null, patchBytes: null }
  try {
    const record = await store.readRecord<EpisodeRecord>(episodeKeys.result(place.episode))
    return record === null ? { ...unknown, state: 'running' } : { ...place, ...describe(record) }
  } catch (error) {
    if (isLonghaulError(error) && error.code === 'Artifact.Corrupt') return { ...unknown, state: 'unreadable' }
    throw error
  }
}

function describe(record: EpisodeRecord): Omit<EpisodeRow, keyof EpisodePlace> {
  const { disposition, verdict, verdictReason, failure, turns, sampledTokens, patchBytes, audit } = record
  return {
    state: disposition,
    verdict,
    reason: verdictReason,
    failure,
    // Records of earlier versions have neither.
    hack: record.suspectedHack ?? false,
    signs: record.signs ?? [],
    audit: audit?.outcome ?? null,
    turns,
    sampledTokens,
    patchBytes,
  }
}
