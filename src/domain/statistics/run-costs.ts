import type { Amount, LostWork, RunCosts, Spent, StageCosts } from '../../contracts/costs.types.ts'
import type { PriceRecipe } from '../../contracts/recipe.types.ts'
import type { TokenUsage } from '../../contracts/policy.types.ts'
import type { ActionRecord } from '../../contracts/episodes.types.ts'

/** A part of the work, in seconds; null if no record states it. */
export interface PaidPart {
  seconds: number | null
  /** Why the part had to be repeated; null for the part that counts. */
  lostBecause: string | null
}

/** The paid work of one episode. */
export interface EpisodeSpent {
  stage: string
  iteration: number
  suite: string | null
  taskId: string
  /** `lost`: no verdict that counts. `open`: it has no last record yet. */
  outcome: 'resolved' | 'unresolved' | 'lost' | 'open'
  /** Why it is lost; null for all others. */
  because: string | null
  sandboxes: PaidPart[]
  gradings: PaidPart[]
  promptTokens: number | null
  cachedTokens: number | null
  sampledTokens: number | null
  /** First prompt and last observation, ms since 1970. */
  startedMs: number | null
  endedMs: number | null
}

/** One launch of a training job. */
export interface TrainerSpent extends PaidPart {
  stage: string
  startedMs: number | null
  endedMs: number | null
}

export interface RunCostsInput {
  prices: PriceRecipe | null
  device: RunCosts['device']
  episodes: readonly EpisodeSpent[]
  /** `seconds` are those of its devices. */
  trainers: readonly TrainerSpent[]
  /** Gradings that this run's own gates made. */
  gates: readonly PaidPart[]
}

const GATE = 'gate'

/** Sums everything that a run paid for, by stage and including failures. Each record is counted once, in one stage. */
export function sumCosts({ prices, device, episodes, trainers, gates }: RunCostsInput): RunCosts {
  const machines = machineMoney(prices, episodes, trainers)
  const names = new Set([...episodes, ...trainers].map(({ stage }) => stage))
  const parts = [...names].map((stage): StageInput => {
    const ofStage = episodes.filter((episode) => episode.stage === stage)
    return {
      stage,
      episodes: ofStage,
      trainers: trainers.filter((trainer) => trainer.stage === stage),
      gradings: ofStage.flatMap(({ gradings }) => gradings),
      machines: prices === null || prices.machines.length === 0 ? NOTHING : amountOf(machines.get(stage) ?? null),
    }
  })
  const ordered = parts.toSorted((a, b) => beginning(a) - beginning(b) || (a.stage < b.stage ? -1 : 1))
  const gate: StageInput[] =
    gates.length === 0 ? [] : [{ stage: GATE, episodes: [], trainers: [], gradings: gates, machines: NOTHING }]
  const stages = [...gate, ...ordered].map((part) => stageCosts(part, prices))
  return { device, prices, stages, whole: wholeOf(stages, episodes, prices !== null) }
}

interface StageInput {
  stage: string
  episodes: readonly EpisodeSpent[]
  trainers: readonly TrainerSpent[]
  gradings: readonly PaidPart[]
  machines: Spent['money']
}

function beginning({ episodes, trainers }: StageInput): number {
  const starts = [...episodes, ...trainers].flatMap(({ startedMs }) => (startedMs === null ? [] : [startedMs]))
  return starts.reduce((a, b) => Math.min(a, b), Infinity)
}

/** Machines are rented while an iteration is played, from its first prompt to its last observation, and while a trainer runs. */
function machineMoney(
  prices: PriceRecipe | null,
  episodes: readonly EpisodeSpent[],
  trainers: readonly TrainerSpent[],
): Map<string, number> {
  if (prices === null) return new Map()
  const iterations = Map.groupBy(episodes, ({ stage, iteration }) => `${stage}/${iteration}`)
  const spans = [...iterations.values()].flatMap((ofIteration) => spanOf(ofIteration))
  const shares = shareTime([...spans, ...trainers.flatMap((trainer) => spanOf([trainer]))])
  return new Map([...shares].map(([stage, ms]) => [stage, rentOf(ms, prices)]))
}

function spanOf(parts: readonly Pick<TrainerSpent, 'stage' | 'startedMs' | 'endedMs'>[]): Interval[] {
  const known = parts.flatMap(({ stage, startedMs, endedMs }) =>
    startedMs === null || endedMs === null ? [] : [{ of: stage, startedMs, endedMs: Math.max(startedMs, endedMs) }],
  )
  const [first] = known
  if (first === undefined) return []
  const startedMs = known.reduce((a, b) => Math.min(a, b.startedMs), Infinity)
  const endedMs = known.reduce((a, b) => Math.max(a, b.endedMs), -Infinity)
  return [{ of: first.of, startedMs, endedMs }]
}

function stageCosts(part: StageInput, prices: PriceRecipe | null): StageCosts {
  const { stage, episodes, trainers, gradings } = part
  const spent: Spent = {
    ...spentOn({ sandboxes: episodes.flatMap(({ sandboxes }) => sandboxes), gradings, trainers, episodes }),
    money: prices === null ? NOTHING : addAmounts([tokenMoney(episodes, prices), part.machines]),
  }
  const resolved = new Set(episodes.flatMap((episode) => resolvedTask(episode))).size
  return {
    stage,
    episodes: episodes.length,
    lostEpisodes: episodes.filter(({ outcome }) => outcome === 'lost').length,
    openEpisodes: episodes.filter(({ outcome }) => outcome === 'open').length,
    resolvedTasks: resolved,
    spent,
    perResolvedTask: perTask(spent, resolved, prices !== null),
    lost: lostWork(part),
  }
}

function resolvedTask({ outcome, suite, taskId }: EpisodeSpent): string[] {
  return outcome === 'resolved' ? [`${suite ?? ''}/${taskId}`] : []
}

function tokenMoney(episodes: readonly EpisodeSpent[], prices: PriceRecipe): Spent['money'] {
  const paid = episodes.map(({ promptTokens, cachedTokens, sampledTokens }) => ({
    usage:
      promptTokens === null || sampledTokens === null
        ? null
        : { promptTokens, cachedTokens, completionTokens: sampledTokens },
    startedMs: null,
    endedMs: null,
  }))
  return sumKnown(attemptCosts(paid, { ...prices, machines: [] }))
}

interface Parts {
  sandboxes: readonly PaidPart[]
  gradings: readonly PaidPart[]
  trainers: readonly PaidPart[]
  episodes: readonly Pick<EpisodeSpent, 'promptTokens' | 'sampledTokens'>[]
}

function spentOn({ sandboxes, gradings, trainers, episodes }: Partial<Parts>): Omit<Spent, 'money'> {
  const seconds = (parts: readonly PaidPart[] = []) => sumKnown(parts.map((part) => part.seconds))
  return {
    trainerSeconds: seconds(trainers),
    sandboxSeconds: seconds(sandboxes),
    gradingSeconds: seconds(gradings),
    promptTokens: sumKnown((episodes ?? []).map(({ promptTokens }) => promptTokens)),
    sampledTokens: sumKnown((episodes ?? []).map(({ sampledTokens }) => sampledTokens)),
  }
}

function perTask(spent: Spent, resolved: number, isPriced: boolean): StageCosts['perResolvedTask'] {
  const share = ({ total }: Spent['money']): number | null =>
    resolved === 0 || total === null ? null : total / resolved
  return {
    trainerSeconds: share(spent.trainerSeconds),
    sandboxSeconds: share(spent.sandboxSeconds),
    gradingSeconds: share(spent.gradingSeconds),
    promptTokens: share(spent.promptTokens),
    sampledTokens: share(spent.sampledTokens),
    money: isPriced ? share(spent.money) : null,
  }
}

/** A lost episode counts with all of its sandboxes and gradings; other episodes count with the work that had to be repeated. */
function lostWork({ episodes, trainers, gradings }: StageInput): LostWork[] {
  const kept = episodes.filter(({ outcome }) => outcome !== 'lost')
  const ofEpisodes = new Set(episodes.flatMap((episode) => episode.gradings))
  const again = [
    ...kept.flatMap((episode) => episode.gradings),
    ...gradings.filter((grading) => !ofEpisodes.has(grading)),
  ]
  return [
    ...group(
      'episode',
      episodes.filter(({ outcome }) => outcome === 'lost'),
      ({ because }) => because,
      (lost) => ({
        episodes: lost,
        sandboxes: lost.flatMap(({ sandboxes }) => sandboxes),
        gradings: lost.flatMap((episode) => episode.gradings),
      }),
    ),
    ...group(
      'sandbox',
      kept.flatMap(({ sandboxes }) => sandboxes),
      lostBecause,
      (sandboxes) => ({ sandboxes }),
    ),
    ...group('grading', again, lostBecause, (lost) => ({ gradings: lost })),
    ...group('trainer', trainers, lostBecause, (lost) => ({ trainers: lost })),
  ]
}

function lostBecause(part: PaidPart): string | null {
  return part.lostBecause
}

function group<T>(
  what: LostWork['what'],
  items: readonly T[],
  because: (item: T) => string | null,
  partsOf: (lost: readonly T[]) => Partial<Parts>,
): LostWork[] {
  const lost = items.filter((item) => because(item) !== null)
  return [...Map.groupBy(lost, (item) => because(item) ?? '')]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([reason, members]) => ({ what, because: reason, count: members.length, spent: spentOn(partsOf(members)) }))
}

function wholeOf(stages: readonly StageCosts[], episodes: readonly EpisodeSpent[], isPriced: boolean): StageCosts {
  const add = (of: keyof Spent) => addAmounts(stages.map(({ spent }) => spent[of]))
  const count = (of: 'episodes' | 'lostEpisodes' | 'openEpisodes'): number =>
    stages.reduce((sum, stage) => sum + stage[of], 0)
  const spent: Spent = {
    trainerSeconds: add('trainerSeconds'),
    sandboxSeconds: add('sandboxSeconds'),
    gradingSeconds: add('gradingSeconds'),
    promptTokens: add('promptTokens'),
    sampledTokens: add('sampledTokens'),
    money: add('money'),
  }
  const resolved = new Set(episodes.flatMap((episode) => resolvedTask(episode))).size
  return {
    stage: 'whole run',
    episodes: count('episodes'),
    lostEpisodes: count('lostEpisodes'),
    openEpisodes: count('openEpisodes'),
    resolvedTasks: resolved,
    spent,
    perResolvedTask: perTask(spent, resolved, isPriced),
    lost: stages.flatMap(({ lost }) => lost),
  }
}

/** The sum of no records: nothing was spent. Sums also count the parts whose records state no value. */
export const NOTHING: Amount = { total: 0, told: 0, unknown: 0 }

export function amountOf(value: number | null): Amount {
  return value === null ? { total: null, told: 0, unknown: 1 } : { total: value, told: 1, unknown: 0 }
}

export function addAmounts(amounts: readonly Amount[]): Amount {
  let [sum, told, unknown] = [0, 0, 0]
  for (const amount of amounts) {
    sum += amount.total ?? 0
    told += amount.told
    unknown += amount.unknown
  }
  return { total: told === 0 && unknown > 0 ? null : sum, told, unknown }
}

export function sumKnown(values: readonly (number | null)[]): Amount {
  return addAmounts(values.map(amountOf))
}

/** A time span in ms since 1970. */
export interface Interval {
  of: string
  startedMs: number
  endedMs: number
}

/**
 * Returns milliseconds for each name; concurrent ones share the time equally. Their sum is the time in which anything ran, so that no
 * second of a machine is paid twice.
 */
export function shareTime(intervals: readonly Interval[]): Map<string, number> {
  const shares = new Map<string, number>()
  const marks = [...new Set(intervals.flatMap(({ startedMs, endedMs }) => [startedMs, endedMs]))].sort((a, b) => a - b)
  for (const [index, from] of marks.entries()) {
    const to = marks[index + 1]
    if (to === undefined) break
    const names = new Set(
      intervals.filter(({ startedMs, endedMs }) => startedMs <= from && endedMs >= to).map(({ of }) => of),
    )
    for (const name of names) shares.set(name, (shares.get(name) ?? 0) + (to - from) / names.size)
  }
  return shares
}

/** The facts of an attempt that determine its cost. */
export interface PaidFacts {
  usage: TokenUsage | null
  /** First prompt and last observation, Unix ms; null if the attempt ended before. */
  startedMs: number | null
  endedMs: number | null
}

const MILLION = 1_000_000
const HOUR_MS = 3_600_000

/**
 * Returns the cost of each attempt, in order. Tokens are counted at their price; cached ones at their own, or as other input if there
 * is no such price or the server does not report cached tokens. Machines are paid while any attempt runs, and their cost is divided in
 * proportion to the attempts' own time, so that the attempts of an evaluation add up to the total.
 * @returns null for an attempt without token counts, if tokens have a price
 */
export function attemptCosts(facts: readonly PaidFacts[], prices: PriceRecipe): (number | null)[] {
  const share = machineShare(facts, prices)
  return facts.map((attempt) => {
    const tokens = tokenCost(attempt.usage, prices.perMillionTokens)
    return tokens === null ? null : tokens + share * durationMs(attempt)
  })
}

function tokenCost(usage: TokenUsage | null, price: PriceRecipe['perMillionTokens']): number | null {
  if (price === null) return 0
  if (usage === null) return null
  const cached = usage.cachedTokens ?? 0
  const input = (usage.promptTokens - cached) * price.input + cached * (price.cachedInput ?? price.input)
  return (input + usage.completionTokens * price.output) / MILLION
}

/** The cost of all machines together for so many milliseconds. */
function rentOf(ms: number, prices: PriceRecipe): number {
  return (ms / HOUR_MS) * perHourOf(prices)
}

function perHourOf({ machines }: PriceRecipe): number {
  return machines.reduce((sum, machine) => sum + machine.count * machine.perHour, 0)
}

/** The machine cost per millisecond of an attempt. */
function machineShare(facts: readonly PaidFacts[], prices: PriceRecipe): number {
  const perHour = perHourOf(prices)
  const attemptsMs = facts.reduce((sum, attempt) => sum + durationMs(attempt), 0)
  if (attemptsMs === 0) return 0
  const starts = facts.flatMap(({ startedMs, endedMs }) => (endedMs === null || startedMs === null ? [] : [startedMs]))
  const ends = facts.flatMap(({ startedMs, endedMs }) => (startedMs === null || endedMs === null ? [] : [endedMs]))
  const spanMs = ends.reduce((a, b) => Math.max(a, b), 0) - starts.reduce((a, b) => Math.min(a, b), Infinity)
  return ((spanMs / HOUR_MS) * perHour) / attemptsMs
}

function durationMs({ startedMs, endedMs }: PaidFacts): number {
  return startedMs === null || endedMs === null ? 0 : Math.max(0, endedMs - startedMs)
}

type CountedAction = Pick<ActionRecord, 'promptDelta' | 'ids' | 'chat'>

/**
 * Counts tokens read and written over all samples of an episode, each of which reads the whole conversation before it. Ids are counted,
 * a chat endpoint's own counts are summed, and nothing is estimated.
 * @returns null if an endpoint reported no counts; `cachedTokens` is null if it did not report those
 */
export function usageOf(actions: readonly CountedAction[]): TokenUsage | null {
  let context = 0
  const total: TokenUsage = { promptTokens: 0, cachedTokens: 0, completionTokens: 0 }
  for (const { promptDelta, ids, chat } of actions) {
    context += promptDelta.length
    const used = chat === undefined ? countIds(context, ids) : chat.usage
    if (used === null) return null
    context += ids.length
    total.promptTokens += used.promptTokens
    total.completionTokens += used.completionTokens
    total.cachedTokens =
      total.cachedTokens === null || used.cachedTokens === null ? null : total.cachedTokens + used.cachedTokens
  }
  return total
}

/** A token server does not report what its prefix cache saved. */
function countIds(context: number, ids: readonly number[]): TokenUsage {
  return { promptTokens: context, cachedTokens: null, completionTokens: ids.length }
}

/** Number of context tokens after the last of these turns; null if an endpoint did not report counts. */
export function contextOf(actions: readonly CountedAction[]): number | null {
  const last = actions.at(-1)
  if (last?.chat !== undefined) {
    const { usage } = last.chat
    return usage === null ? null : usage.promptTokens + usage.completionTokens
  }
  return actions.reduce((sum, { promptDelta, ids }) => sum + promptDelta.length + ids.length, 0)
}
