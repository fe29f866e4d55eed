/** Reads trends: the nights of a series, from their records. */
import { readUnlessCorrupt } from '../activities/runtime/stored-records.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { nightKeys, runKeys } from '../contracts/keys.ts'
import type { NightRecord } from '../contracts/nights.types.ts'
import { createSlots } from '../platform/limiter.ts'
import type { NightsPage, TrendNight, TrendPage } from './pages.types.ts'

/** More than a year of nights with two evaluations each. Older ones are only counted; their runs have pages of their own. */
const MOST_SHOWN = 1_000
const READS = 16

/** Names of the series in a store; a page may ask for no others. */
export function listSeries(store: ArtifactStore): Promise<string[]> {
  return store.folders(nightKeys.all)
}

export async function readNightsPage(store: ArtifactStore): Promise<NightsPage> {
  const names = await listSeries(store)
  const series = await Promise.all(
    names.map(async (series) => {
      const keys = await store.list(nightKeys.series(series))
      const last = await newestReadable(store, keys)
      return { series, evaluations: keys.length, last }
    }),
  )
  return { kind: 'nights', series }
}

/** The newest readable of the last records: a corrupt one must not hide the series. */
async function newestReadable(store: ArtifactStore, keys: readonly string[]): Promise<TrendNight | null> {
  for (const key of keys.slice(-5).toReversed()) {
    const record = await readUnlessCorrupt<NightRecord>(store, key)
    if (record !== null) return nightOf(record)
  }
  return null
}

/** Null if there is no such series: a name becomes part of a path only if it is among the existing series. */
export async function readTrendPage(store: ArtifactStore, series: string): Promise<TrendPage | null> {
  if (!(await listSeries(store)).includes(series)) return null
  const keys = await store.list(nightKeys.series(series))
  const shown = keys.slice(-MOST_SHOWN)
  const slots = createSlots(READS)
  const records = await Promise.all(shown.map((key) => slots.use(() => readUnlessCorrupt<NightRecord>(store, key))))
  const nights = records.filter((record) => record !== null).map(nightOf)
  return {
    kind: 'trend',
    series,
    nights: nights.toSorted((a, b) => compareTexts(a.at, b.at) || rank(a) - rank(b) || compareTexts(a.name, b.name)),
    earlier: keys.length - shown.length,
    unreadable: shown.length - nights.length,
  }
}

/** A night's main evaluation comes before its others. */
function rank({ role }: TrendNight): number {
  return role === 'main' ? 0 : 1
}

function compareTexts(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

/** Series that a run's evaluations joined. */
export async function seriesOfRun(store: ArtifactStore, run: string): Promise<string[]> {
  const records = await Promise.all(
    (await store.list(runKeys.nights(run))).map((key) => readUnlessCorrupt<NightRecord>(store, key)),
  )
  return [...new Set(records.filter((record) => record !== null).map(({ series }) => series))].toSorted()
}

function nightOf({ night, role, verdicts }: NightRecord): TrendNight {
  const { at, run, name, policy, split, revision, tasks, attempts, passAt1, interval, lost, turns } = night
  return {
    at,
    run,
    name,
    role,
    policy,
    split,
    revision,
    tasks,
    attempts,
    passAt1,
    interval: interval === null ? null : { low: interval.low, high: interval.high },
    lost,
    turns,
    sampledTokens: night.sampledTokens,
    cost: night.cost,
    verdicts: verdicts.map(({ against, before, outcome, statement }) => ({
      against,
      outcome,
      statement,
      before: before === null ? null : { run: before.run, name: before.name },
    })),
  }
}
