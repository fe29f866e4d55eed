import { LonghaulError } from '../../contracts/errors.ts'
import type { MlflowRecipe, TrackedPoint, TrackedRun } from '../../contracts/trackers.types.ts'
import { askMlflow, MlflowRefusal } from './mlflow-requests.ts'
import type { SendOptions, Tracker } from './tracker.types.ts'
import { z } from 'zod'

/** MLflow accepts no more metrics in one request. */
const MOST_AT_ONCE = 1000
/** Tag that identifies a run of one artifact store: `<run>/<first execution>`. */
const IDENTITY = 'longhaul.id'

const EXPERIMENT = z.object({
  experiment: z.object({ experiment_id: z.string().min(1), lifecycle_stage: z.string().nullish() }),
})
const MADE_EXPERIMENT = z.object({ experiment_id: z.string().min(1) })
const METRIC = z.object({ key: z.string(), step: z.coerce.number(), timestamp: z.coerce.number() })
const RUN = z.object({
  info: z.object({ run_id: z.string().min(1), status: z.string() }),
  data: z.object({ metrics: z.array(METRIC).nullish() }).nullish(),
})
const MADE_RUN = z.object({ run: RUN })
const RUNS = z.object({ runs: z.array(RUN).nullish() })
const HISTORY = z.object({ metrics: z.array(METRIC).nullish(), next_page_token: z.string().nullish() })
const NOTHING = z.object({})

type MlflowRun = z.infer<typeof RUN>
type Ask = <T>(method: 'GET' | 'POST', path: string, body: Record<string, unknown>, answer: z.ZodType<T>) => Promise<T>

/** Uses the REST API, so that no Python package is needed. */
export function mlflowTracker(recipe: MlflowRecipe, env: NodeJS.ProcessEnv): Tracker {
  return {
    name: `mlflow ${recipe.url} (${recipe.experiment})`,
    async send(run, { isDry, signal, onSent, settleId }) {
      const ask: Ask = (method, path, body, answer) =>
        askMlflow(recipe, { method, path, body, answer }, { signal, env })
      const experiment = await findExperiment(ask, recipe, isDry)
      const found = experiment === null ? [] : await findRuns(ask, experiment, run)
      if (run.points.length === 0) return
      if (isDry || experiment === null) {
        const [any] = found
        onSent(any === undefined ? run.points.length : (await missing(ask, any, run.points)).length)
        return
      }
      const target = (await chosen(found, settleId)) ?? (await makeRun(ask, experiment, run, settleId))
      const points = await missing(ask, target, run.points)
      for (let from = 0; from < points.length; from += MOST_AT_ONCE) {
        const batch = points.slice(from, from + MOST_AT_ONCE)
        await ask('POST', 'runs/log-batch', { run_id: target.info.run_id, metrics: batch.map(toMetric) }, NOTHING)
        onSent(batch.length)
      }
      await finish(ask, target, run)
    },
  }
}

function toMetric({ metric, value, step, atMs }: TrackedPoint): Record<string, unknown> {
  return { key: metric, value, timestamp: atMs, step }
}

/** Returns null if there is none and none is to be created. */
async function findExperiment(
  ask: Ask,
  { experiment: name, url }: MlflowRecipe,
  isDry: boolean,
): Promise<string | null> {
  const find = async () =>
    (await ask('GET', 'experiments/get-by-name', { experiment_name: name }, EXPERIMENT)).experiment
  const orElse = async (word: string, instead: () => Promise<string | null>, first: () => Promise<string | null>) => {
    try {
      return await first()
    } catch (error) {
      if (error instanceof MlflowRefusal && error.word === word) return instead()
      throw error
    }
  }
  const there = async (): Promise<string> => {
    const { experiment_id: id, lifecycle_stage: stage } = await find()
    if (stage !== 'deleted') return id
    throw new LonghaulError({
      code: 'Tracker.Refused',
      message: `The experiment ${JSON.stringify(name)} of MLflow at ${url} was deleted: restore it (mlflow experiments restore), or name another one in trackers[].experiment`,
    })
  }
  const make = async (): Promise<string | null> =>
    isDry ? null : (await ask('POST', 'experiments/create', { name }, MADE_EXPERIMENT)).experiment_id
  // Another sender may create it between the two requests.
  return orElse('RESOURCE_DOES_NOT_EXIST', () => orElse('RESOURCE_ALREADY_EXISTS', there, make), there)
}

/** Finds the MLflow runs of this run. There are several if two senders created one concurrently and the second has not deleted its
 *  own yet. */
async function findRuns(ask: Ask, experiment: string, run: TrackedRun): Promise<MlflowRun[]> {
  const body = {
    experiment_ids: [experiment],
    filter: `tags.\`${IDENTITY}\` = '${identityOf(run)}'`,
    run_view_type: 'ACTIVE_ONLY',
    max_results: 100,
  }
  const { runs } = await ask('POST', 'runs/search', body, RUNS)
  return (runs ?? []).toSorted((a, b) => (a.info.run_id < b.info.run_id ? -1 : 1))
}

type SettleId = SendOptions['settleId']

/** Returns the run that senders settled on, or another if a user has deleted that one. Null if there is none. */
async function chosen(runs: readonly MlflowRun[], settleId: SettleId, own = runs[0]): Promise<MlflowRun | null> {
  if (own === undefined) return null
  const settled = await settleId(own.info.run_id)
  return runs.find(({ info }) => info.run_id === settled) ?? runs[0] ?? own
}

function identityOf({ run, id }: TrackedRun): string {
  return `${run}/${id}`
}

async function makeRun(ask: Ask, experiment: string, run: TrackedRun, settleId: SettleId): Promise<MlflowRun> {
  const facts = Object.entries({ ...run.facts, run: run.run }).map(([name, value]) => ({
    key: `longhaul.${name}`,
    value,
  }))
  const body = {
    experiment_id: experiment,
    run_name: run.run,
    start_time: run.points[0]?.atMs,
    tags: [...facts, { key: IDENTITY, value: identityOf(run) }],
  }
  const { run: made } = await ask('POST', 'runs/create', body, MADE_RUN)
  // Settled before the search, so that the settled run is among the results.
  await settleId(made.info.run_id)
  const first = (await chosen(await findRuns(ask, experiment, run), settleId, made)) ?? made
  if (first.info.run_id !== made.info.run_id) await ask('POST', 'runs/delete', { run_id: made.info.run_id }, NOTHING)
  return first
}

/**
 * Returns the points that MLflow lacks, in order. MLflow reports the highest step of each metric, and points of a metric are sent in
 * order, so for metrics with rising steps every point up to that step is present. Steps of metrics of earlier policies may fall, so
 * their whole history is read.
 */
async function missing(ask: Ask, { info, data }: MlflowRun, points: readonly TrackedPoint[]): Promise<TrackedPoint[]> {
  const shown = new Map((data?.metrics ?? []).map(({ key, step }) => [key, step]))
  const histories = new Map<string, Set<string>>()
  for (const [metric, own] of Map.groupBy(points, ({ metric }) => metric)) {
    const rises = own.every(({ step }, at) => at === 0 || step > (own[at - 1]?.step ?? 0))
    if (shown.has(metric) && !rises) histories.set(metric, await readHistory(ask, info.run_id, metric))
  }
  return points.filter(({ metric, step, atMs }) => {
    const highest = shown.get(metric)
    const history = histories.get(metric)
    if (history !== undefined) return !history.has(`${step} ${atMs}`)
    return highest === undefined || step > highest
  })
}

async function readHistory(ask: Ask, runId: string, metric: string): Promise<Set<string>> {
  const seen = new Set<string>()
  let page: string | null = null
  do {
    const body: Record<string, unknown> = { run_id: runId, metric_key: metric, max_results: 5000 }
    if (page !== null) body['page_token'] = page
    const answer: z.infer<typeof HISTORY> = await ask('GET', 'metrics/get-history', body, HISTORY)
    for (const { step, timestamp } of answer.metrics ?? []) seen.add(`${step} ${timestamp}`)
    // An empty token, or the same one again, is the end. A server that repeats itself costs one more page.
    page = (answer.next_page_token ?? '') === page ? null : answer.next_page_token || null
  } while (page !== null)
  return seen
}

/** Keeps what a user has set by hand. */
async function finish(ask: Ask, { info }: MlflowRun, { isReported, points }: TrackedRun): Promise<void> {
  if (!isReported || info.status !== 'RUNNING') return
  await ask('POST', 'runs/update', { run_id: info.run_id, status: 'FINISHED', end_time: points.at(-1)?.atMs }, NOTHING)
}
