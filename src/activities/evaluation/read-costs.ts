/** Computes a run's costs from its stored records. The sums are the same whenever they are computed, even while the run is in
 *  progress. */
import { attemptTimes } from '../../adapters/trainer-job/job/attempt-files.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { JobAttemptTime, JobTimeRecord, RunCosts } from '../../contracts/costs.types.ts'
import type {
  ActionRecord,
  EpisodeRecord,
  EpisodeSpec,
  EpisodeStart,
  GradingAttemptRecord,
  GradingTimeOutRecord,
  ObservationRecord,
  PlacementRecord,
  VerdictRecord,
} from '../../contracts/episodes.types.ts'
import type { GateRecord, TaskGate } from '../../contracts/gates.types.ts'
import { episodeKeys, runKeys } from '../../contracts/keys.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import type { TrainingRecord } from '../../contracts/training.types.ts'
import { exclusionOf } from '../../domain/ledger/episode-fates.ts'
import {
  type EpisodeSpent,
  type PaidPart,
  type TrainerSpent,
  sumCosts,
  usageOf,
} from '../../domain/statistics/run-costs.ts'
import { placeOf } from '../episode/episode-records.ts'
import { readTurns } from '../episode/transcript.ts'
import { readUnlessCorrupt } from '../runtime/stored-records.ts'

/** Number of episodes that are read concurrently. */
const AT_ONCE = 32

type CostedRecipe = { evaluate: Partial<Recipe['evaluate']>; trainer?: Partial<Recipe['trainer']> }

export async function readRunCosts(
  store: ArtifactStore,
  { run, recipe }: { run: string; recipe: CostedRecipe },
): Promise<RunCosts> {
  return sumCosts({
    // Recipes stored by an older version have no prices.
    prices: recipe.evaluate.prices ?? null,
    device: recipe.trainer?.device ?? null,
    episodes: await readEpisodes(store, run),
    trainers: await readTrainers(store, run, ranksOf(recipe)),
    gates: await readGates(store, run),
  })
}

async function readEpisodes(store: ArtifactStore, run: string): Promise<EpisodeSpent[]> {
  const spent: EpisodeSpent[] = []
  for (const stage of await store.folders(episodeKeys.ofRun(run))) {
    for (const iteration of await store.folders(episodeKeys.ofStage(run, stage))) {
      const keys = await store.list(episodeKeys.ofIteration({ run, stage, iteration: Number(iteration) }))
      const byEpisode = [...Map.groupBy(keys, (key) => key.split('/').slice(1, 6).join('/'))]
      for (let at = 0; at < byEpisode.length; at += AT_ONCE) {
        const some = byEpisode.slice(at, at + AT_ONCE)
        spent.push(...(await Promise.all(some.map(([episode, own]) => readEpisode(store, episode, own)))))
      }
    }
  }
  return spent
}

async function readEpisode(store: ArtifactStore, episode: string, keys: readonly string[]): Promise<EpisodeSpent> {
  const read = <T extends object>(key: string): Promise<T | null> => readUnlessCorrupt<T>(store, key)
  const { stage, iteration, taskId } = placeOf(episode)
  const [record, spec, start, verdict] = await Promise.all([
    read<EpisodeRecord>(episodeKeys.result(episode)),
    read<EpisodeSpec>(episodeKeys.spec(episode)),
    read<EpisodeStart>(episodeKeys.start(episode)),
    read<VerdictRecord>(episodeKeys.verdict(episode)),
  ])
  const below = (folder: string): string[] => keys.filter((key) => key.startsWith(`episodes/${episode}/${folder}`))
  const placements = await readAll<PlacementRecord>(store, below('placements/'))
  const turns = below('turns/')
  // For an episode with one sandbox, the last record says when that sandbox was last active.
  const wanted = placements.length > 1 ? turns : lastTurns(turns)
  const signs = (await Promise.all(wanted.map((key) => read<SignOfLife>(key)))).flatMap((sign) => timeOf(sign))
  const startedMs = start?.startedAtMs ?? null
  const observed = turns.findLast((key) => key.endsWith('.observation.json'))
  const last = observed === undefined ? null : await read<ObservationRecord>(observed)
  return {
    stage,
    iteration,
    taskId,
    suite: spec?.suiteHash ?? null,
    ...outcomeOf(record),
    sandboxes: sandboxesOf(placements, startedMs, startedMs === null ? signs : [startedMs, ...signs]),
    gradings: await readGradings(store, episode, { verdict, keys: below('grading/') }),
    ...(await tokensOf(store, episode, record)),
    startedMs,
    endedMs: last?.observedAtMs ?? null,
  }
}

type SignOfLife = Partial<Pick<ActionRecord, 'sampledAtMs' | 'sampleMs'> & Pick<ObservationRecord, 'observedAtMs'>>

function timeOf(sign: SignOfLife | null): number[] {
  if (sign?.observedAtMs !== undefined) return [sign.observedAtMs]
  // The sandbox was there until the sample ended, not only when it was requested.
  return sign?.sampledAtMs === undefined ? [] : [sign.sampledAtMs + (sign.sampleMs ?? 0)]
}

function lastTurns(turns: readonly string[]): string[] {
  const last = (ending: string) => turns.findLast((key) => key.endsWith(ending))
  return [last('.observation.json'), last('.action.json')].filter((key) => key !== undefined)
}

function outcomeOf(record: EpisodeRecord | null): Pick<EpisodeSpent, 'outcome' | 'because'> {
  if (record === null) return { outcome: 'open', because: null }
  const { failure, verdict, verdictReason } = record
  const exclusion = exclusionOf(record)
  if (exclusion === null) return { outcome: verdict === 'resolved' ? 'resolved' : 'unresolved', because: null }
  const detail = exclusion === 'could-not-grade' ? verdictReason : failure
  return { outcome: 'lost', because: detail === null ? exclusion : `${exclusion}: ${detail}` }
}

/** Each sandbox counts from its placement to the last activity before the next placement; the duration is unknown without any
 *  activity. */
function sandboxesOf(
  placements: readonly PlacementRecord[],
  startedMs: number | null,
  signs: readonly number[],
): PaidPart[] {
  const recorded = placements.map(({ placedAtMs }) => placedAtMs).toSorted((a, b) => a - b)
  // Records of earlier versions have no placements, so their sandbox counts from the first prompt.
  const placed = recorded.length > 0 || startedMs === null ? recorded : [startedMs]
  if (placed.length === 0) return [{ seconds: null, lostBecause: null }]
  return placed.map((from, index) => {
    const next = placed[index + 1] ?? Infinity
    // A first prompt that replaces the placement says nothing about the duration.
    const seen = signs.filter((sign) => sign > from && sign < next)
    const seconds = seen.length === 0 ? null : (seen.reduce((a, b) => Math.max(a, b)) - from) / 1000
    return { seconds, lostBecause: next === Infinity ? null : 'placed again' }
  })
}

/**
 * Counts every grading container. A repeated time-out, and attempts without a verdict because of infrastructure, belong to the same
 * episode. An attempt with two records counts once.
 */
async function readGradings(
  store: ArtifactStore,
  episode: string,
  { verdict, keys }: { verdict: VerdictRecord | null; keys: readonly string[] },
): Promise<PaidPart[]> {
  // Gradings of `longhaul regrade` lie below this folder and belong to another run.
  const own = keys.filter((key) => !key.slice(`episodes/${episode}/`.length).includes('/again/'))
  const timeOuts = await readAll<GradingTimeOutRecord>(
    store,
    own.filter((key) => key.endsWith('/timed-out.json')),
  )
  const failed = await readAll<GradingAttemptRecord>(
    store,
    own.filter((key) => /\/attempt-\d+\.json$/.test(key)),
  )
  const first = timeOuts.filter((one) => !isVerdicts(one, verdict))
  return [
    ...first.map(({ gradeMs }) => ({ seconds: secondsOf(gradeMs), lostBecause: 'tests-timed-out' })),
    ...failed
      .filter(({ attempt }) => !timeOuts.some((one) => one.attempt === attempt))
      .map(({ failure }) => ({ seconds: null, lostBecause: failure })),
    ...verdictGrading(verdict, failed.length > 0),
  ]
}

/** The last attempt's time-out is its verdict and is recorded as both. */
function isVerdicts({ gradeMs }: GradingTimeOutRecord, verdict: VerdictRecord | null): boolean {
  return verdict?.reason === 'tests-timed-out' && verdict.kind === 'could-not-grade' && verdict.gradeMs === gradeMs
}

function verdictGrading(verdict: VerdictRecord | null, hasFailedAttempts: boolean): PaidPart[] {
  if (verdict === null || verdict.from === 'gate') return []
  const { kind, gradeMs, audit } = verdict
  // If the record only states why there is no verdict, the attempts are counted instead.
  if (gradeMs === 0 && kind === 'could-not-grade' && hasFailedAttempts) return []
  const seconds = secondsOf(gradeMs)
  return [{ seconds: seconds === null ? null : seconds + (audit?.auditMs ?? 0) / 1000, lostBecause: null }]
}

/** No container grades in zero time, so 0 means that the time was not measured. */
function secondsOf(gradeMs: number): number | null {
  return gradeMs === 0 ? null : gradeMs / 1000
}

async function tokensOf(
  store: ArtifactStore,
  episode: string,
  record: EpisodeRecord | null,
): Promise<Pick<EpisodeSpent, 'promptTokens' | 'cachedTokens' | 'sampledTokens'>> {
  const usage = record === null ? usageOf((await readTurns(store, episode)).map(({ action }) => action)) : record.usage
  if (usage !== undefined && usage !== null) {
    const { promptTokens, cachedTokens, completionTokens } = usage
    return { promptTokens, cachedTokens, sampledTokens: completionTokens }
  }
  return { promptTokens: null, cachedTokens: null, sampledTokens: record?.sampledTokens ?? null }
}

/** Uses the records of ended jobs. For a job that failed or is running, uses its files if they are in this store. */
async function readTrainers(store: ArtifactStore, run: string, ranks: number): Promise<TrainerSpent[]> {
  const keys = await store.list(`runs/${run}/`)
  const jobs = await findJobs(store, { run, ranks, keys })
  const done = new Set<string>()
  for (const { stage, iteration, slice } of await readAll<TrainingRecord>(
    store,
    below(keys, `runs/${run}/training/`),
  )) {
    const job = runKeys.job(run, stage, iteration, slice)
    done.add(job)
    // It trained, but its duration is not recorded.
    if (!jobs.has(job)) jobs.set(job, { stage, ranks, attempts: [] })
  }
  return [...jobs].flatMap(([job, one]) => trainersOf(one, done.has(job)))
}

interface JobTimes {
  stage: string
  ranks: number
  attempts: JobAttemptTime[]
}

async function findJobs(
  store: ArtifactStore,
  { run, ranks: planned, keys }: { run: string; ranks: number; keys: readonly string[] },
): Promise<Map<string, JobTimes>> {
  const jobs = new Map<string, JobTimes>()
  for (const record of await readAll<JobTimeRecord>(store, below(keys, runKeys.jobTimes(run)))) {
    const { stage, iteration, slice, ranks, attempts } = record
    jobs.set(runKeys.job(run, stage, iteration, slice), { stage, ranks, attempts })
  }
  const files = keys.flatMap((key) => {
    const [, job, fence] = /^(.*\/job-\d+)\/attempts\/(\d+)\/(?:progress\.jsonl|exit\.json)$/.exec(key) ?? []
    return job === undefined || jobs.has(job) ? [] : [{ job, fence: Number(fence) }]
  })
  for (const [job, found] of Map.groupBy(files, (file) => file.job)) {
    const fences = [...new Set(found.map(({ fence }) => fence))]
    const read = async (fence: number, name: string): Promise<string | null> => {
      const bytes = await store.read(`${job}/attempts/${fence}/${name}`)
      return bytes === null ? null : new TextDecoder().decode(bytes)
    }
    const texts = await Promise.all(
      fences.map(async (fence) => ({
        fence,
        progress: await read(fence, 'progress.jsonl'),
        exit: await read(fence, 'exit.json'),
      })),
    )
    jobs.set(job, { stage: job.split('/')[2] ?? '', ranks: planned, attempts: attemptTimes(texts) })
  }
  return jobs
}

function ranksOf({ trainer }: CostedRecipe): number {
  return (trainer?.nodes ?? 1) * (trainer?.ranksPerNode ?? 1)
}

/** The trainer's own names. */
const SUCCESS = 'ok'

function trainersOf({ stage, ranks, attempts }: JobTimes, isDone: boolean): TrainerSpent[] {
  if (attempts.length === 0) return [{ stage, seconds: null, lostBecause: null, startedMs: null, endedMs: null }]
  return attempts.map(({ startedAtMs: startedMs, endedAtMs: endedMs, end }, index) => {
    const isLast = index === attempts.length - 1
    // The last attempt of an open job may be running.
    const isLost = !isLast || (!isDone && end !== null && end !== SUCCESS)
    const seconds = startedMs === null || endedMs === null ? null : ((endedMs - startedMs) / 1000) * ranks
    return { stage, seconds, lostBecause: isLost ? (end ?? 'killed') : null, startedMs, endedMs }
  })
}

/** Counts gradings that this run made. Gradings of the same tasks by an earlier run were paid for there. */
async function readGates(store: ArtifactStore, run: string): Promise<PaidPart[]> {
  const keys = (await store.list(`runs/${run}/gates/`)).filter((key) => /\/tasks\/[^/]+\.json$/.test(key))
  const gates = await readAll<TaskGate>(store, keys)
  const identities = new Set(
    gates.flatMap(({ taskId, identity }) => (identity === null ? [] : [`gates/${taskId}/${identity}/`])),
  )
  const parts: PaidPart[] = []
  for (const folder of identities) {
    const records = (await store.list(folder)).filter((key) => /\/(gold|empty)-\d+\.json$/.test(key))
    for (const grading of await readAll<GateRecord>(store, records)) {
      if (grading.run !== run) continue
      const { gradings, gradeMs, audit } = grading
      parts.push({ seconds: gradeMs / 1000 + (audit?.auditMs ?? 0) / 1000, lostBecause: null })
      // Only the deciding container was timed.
      for (let more = 1; more < gradings; more++) parts.push({ seconds: null, lostBecause: 'graded again by the gate' })
    }
  }
  return parts
}

function below(keys: readonly string[], prefix: string): string[] {
  return keys.filter((key) => key.startsWith(prefix) && key.endsWith('.json'))
}

async function readAll<T extends object>(store: ArtifactStore, keys: readonly string[]): Promise<T[]> {
  const records = await Promise.all(keys.map((key) => readUnlessCorrupt<T>(store, key)))
  return records.filter((record) => record !== null)
}
