/** Finds what is new since the last check. Each fact is claimed in the store by id, so that it causes one alarm, whichever worker
 *  sees it first. */
import { oneLine } from '../../domain/hostile-text.ts'
import type {
  Alarm,
  AlarmLook,
  AlarmReceiver,
  AlarmRules,
  AlarmSources,
  FoundAlarms,
} from '../../contracts/alarms.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { alarmKeys, nightKeys } from '../../contracts/keys.ts'
import type { NightRecord } from '../../contracts/nights.types.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { readUnlessCorrupt } from '../runtime/stored-records.ts'
import { readReceiver } from './send-alarm.ts'

export interface AlarmWorld {
  store: ArtifactStore
  sources: AlarmSources
  /** Ends with a slash; null if no viewer is known. */
  viewerUrl: string | null
  env: NodeJS.ProcessEnv
  /** @default now */
  now?: () => Date
}

/** How far back facts are considered, so that a weekend without a worker loses no alarm. */
const LOOK_BACK_MS = 3 * 24 * 3_600_000
/** How long an undelivered alarm is retried, so that a receiver that returns after a longer outage is not flooded. */
const GIVE_UP_MS = 24 * 3_600_000
/** A night is indexed by its start and ends within a day (`executionTimeout`). */
const LONGEST_NIGHT_MS = 24 * 3_600_000
/** Maximum number of alarms per round. The rest follows in the next round, so that the receiver is not flooded. */
const MOST_SENT = 20
const MOST_TEXT = 600

/** The part of an alarm that differs between facts. */
interface Fact extends Omit<Alarm, 'schema' | 'id' | 'at' | 'link' | 'text'> {
  /** Identifies the fact. */
  same: readonly (string | number)[]
  /** Computed only for a new fact. */
  text: string | (() => Promise<string>)
}

/** @throws LonghaulError `Config.Invalid` if the receiver's variables are missing, even if there is nothing to send yet */
export async function findAlarms(
  world: AlarmWorld,
  { receiver, ...rules }: AlarmRules & { receiver: AlarmReceiver },
): Promise<FoundAlarms> {
  const { store, now = () => new Date() } = world
  readReceiver(receiver, world.env)
  const at = now()
  const { record } = await store.claimRecord(alarmKeys.since, {
    schema: 'longhaul.alarms-since/1',
    at: at.toISOString(),
  })
  const begun = new Date((record as { at: string }).at)
  const since = new Date(Math.max(begun.getTime(), at.getTime() - LOOK_BACK_MS))
  const look = await world.sources.look({ since, runs: rules.runs, blockerMs: rules.blockerMinutes * 60_000 })
  const facts = [
    ...failures(look, world.sources),
    ...blockers(look, rules, at),
    ...(await skips(store, look, begun)),
    ...(await regressions(store, { since, series: await watchedSeries(store, look, rules) })),
  ]
  for (const fact of facts) await raise(world, fact, at)
  return { ...(await unsent(store, at)), notLookedAt: look.notLookedAt }
}

function failures({ ended }: AlarmLook, sources: AlarmSources): Fact[] {
  return ended.map(({ run, workflowId, status, at }) => ({
    kind: 'failure',
    same: [workflowId, at],
    title: `${run ?? workflowId} ended: ${status.toLowerCase().replaceAll('_', ' ')}`,
    text: () => sources.reasonOf(workflowId),
    run,
    series: null,
    workflowId,
  }))
}

function blockers({ blocked }: AlarmLook, { blockerMinutes }: AlarmRules, at: Date): Fact[] {
  return blocked.flatMap(({ run, workflowId, blockers }) =>
    blockers
      .filter(({ since }) => at.getTime() - Date.parse(since) >= blockerMinutes * 60_000)
      .map(({ on, doing, since, count, code, toDo }): Fact => {
        const error = code === null ? '' : `, ${code}`
        return {
          kind: 'blocker',
          // The episode that has waited longest may change while the server is unavailable, so only the date of its time counts. A
          // wait that goes on, such as a pause, keeps its time: its days make it alarm again.
          same: [workflowId, on.kind, on.name, code ?? '', since.slice(0, 10), ...daysOf(since, at)],
          title: `${run ?? workflowId} waits for ${on.kind} ${on.name}`,
          text: `${doing} since ${since}${error} (${count} ${count === 1 ? 'activity' : 'activities'}). What to do: ${toDo}`,
          run,
          series: null,
          workflowId,
        }
      }),
  )
}

const DAY_MS = 24 * 3_600_000

/** Whole days since then; nothing on the first one, on which earlier versions identified a wait without it. */
function daysOf(since: string, at: Date): number[] {
  const days = Math.floor((at.getTime() - Date.parse(since)) / DAY_MS)
  return days > 0 ? [days] : []
}

/**
 * Evaluates the server's counters, which only grow. The values of a schedule at its first check are its baseline and cause no alarm. A
 * recreated schedule starts a new count.
 */
async function skips(store: ArtifactStore, { schedules }: AlarmLook, begun: Date): Promise<Fact[]> {
  const facts: Fact[] = []
  for (const { id, createdAt, skippedOverlap, missedCatchup } of schedules) {
    const counted = { skippedOverlap, missedCatchup }
    const first = Date.parse(createdAt) < begun.getTime() ? counted : { skippedOverlap: 0, missedCatchup: 0 }
    const key = alarmKeys.firstCounts(sha256Hex(JSON.stringify([id, createdAt])).slice(0, 24))
    const { record } = await store.claimRecord(key, { schema: 'longhaul.alarm-counts/1', schedule: id, ...first })
    const before = record as typeof counted
    if (skippedOverlap <= before.skippedOverlap && missedCatchup <= before.missedCatchup) continue
    facts.push({
      kind: 'skipped',
      same: [id, createdAt, skippedOverlap, missedCatchup],
      title: `Starts of ${id} were skipped`,
      text: `Since the schedule was made, ${skippedOverlap} starts were dropped because earlier runs were still open or waiting, and ${missedCatchup} because the server was away for longer than catchupWindow. What to do: longhaul schedule list; longhaul schedule backfill ${id} starts what is missing`,
      run: null,
      series: id,
      workflowId: null,
    })
  }
  return facts
}

/** The series of a schedule's nights is its id. */
async function watchedSeries(store: ArtifactStore, { schedules }: AlarmLook, { runs }: AlarmRules): Promise<string[]> {
  const all = await store.folders(nightKeys.all)
  return runs === 'all' ? all : all.filter((series) => schedules.some(({ id }) => id === series))
}

async function regressions(
  store: ArtifactStore,
  { since, series: all }: { since: Date; series: readonly string[] },
): Promise<Fact[]> {
  const facts: Fact[] = []
  const from = new Date(since.getTime() - LONGEST_NIGHT_MS).toISOString()
  for (const series of all) {
    const first = nightKeys.from(series, from)
    const keys = (await store.list(nightKeys.series(series))).filter((key) => key >= first)
    for (const key of keys) {
      const record = await readUnlessCorrupt<NightRecord>(store, key)
      if (record !== null) facts.push(...regressionsOf(record))
    }
  }
  return facts
}

function regressionsOf({ series, night, verdicts }: NightRecord): Fact[] {
  return verdicts
    .filter(({ outcome }) => outcome === 'regressed')
    .map(({ against, before, statement }) => ({
      kind: 'regression',
      same: [night.run, night.name, against],
      title: `${series}: ${night.policy} regressed against ${against === 'last' ? 'the last night' : 'the baseline'}`,
      text: `${night.split}, ${before === null ? '' : `${before.run} → `}${night.run}: ${statement}`,
      run: night.run,
      series,
      workflowId: null,
    }))
}

async function raise(world: AlarmWorld, fact: Fact, at: Date): Promise<void> {
  const { store, viewerUrl } = world
  const { same, text, kind, run, ...rest } = fact
  const id = `${kind}-${sha256Hex(JSON.stringify(same)).slice(0, 24)}`
  if ((await store.readRecord(alarmKeys.alarm(id))) !== null) return
  const words = typeof text === 'string' ? text : await text()
  const alarm: Alarm = {
    schema: 'longhaul.alarm/1',
    id,
    kind,
    ...rest,
    // Texts of runs contain output of agents and servers.
    title: oneLine(fact.title, 200),
    text: oneLine(words, MOST_TEXT),
    run,
    link: viewerUrl === null || run === null ? null : `${viewerUrl}#/run/${encodeURIComponent(run)}`,
    at: at.toISOString(),
  }
  await store.claimRecord(alarmKeys.alarm(id), alarm)
}

async function unsent(store: ArtifactStore, at: Date): Promise<Omit<FoundAlarms, 'notLookedAt'>> {
  const sent = new Set((await store.list(alarmKeys.allSent)).map(alarmKeys.sentIdOf))
  const ids = (await store.list(alarmKeys.all)).map(alarmKeys.idOf).filter((id) => !sent.has(id))
  const waiting: Alarm[] = []
  let givenUp = 0
  for (const id of ids) {
    const alarm = await readUnlessCorrupt<Alarm>(store, alarmKeys.alarm(id))
    if (alarm === null) continue
    if (at.getTime() - Date.parse(alarm.at) <= GIVE_UP_MS) {
      waiting.push(alarm)
      continue
    }
    // Recorded, so that a receiver that is permanently gone does not lengthen every round.
    givenUp += 1
    await store.claimRecord(alarmKeys.sent(id), { schema: 'longhaul.alarm-sent/1', id, at: null })
  }
  const oldestFirst = waiting.toSorted((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0))
  return { alarms: oldestFirst.slice(0, MOST_SENT).map(({ id }) => id), givenUp }
}
