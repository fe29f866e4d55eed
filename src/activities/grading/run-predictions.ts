import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { EpisodeRecord } from '../../contracts/episodes.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { purposeOf } from '../../contracts/episode-purpose.ts'
import { episodeKeys } from '../../contracts/keys.ts'
import type { Prediction } from '../../contracts/grading.types.ts'
import { isPolicyDisposition } from '../../domain/ledger/episode-rules.ts'
import { readEpisodeRecords } from '../episode/episode-records.ts'
import { readIterationPlans } from '../evaluation/played-tasks.ts'

export interface RunPredictionsInput {
  store: ArtifactStore
  run: string
  /** Stage whose first iteration is used, such as `eval-rl`; null for the only evaluation of the run. */
  stage: string | null
  /** Number of the attempt at each task, from 1; attempts lost to infrastructure do not count. */
  attempt: number
  /** Name of the model; null for the policy's version. */
  model: string | null
}

export interface RunPredictions {
  stage: string
  predictions: Prediction[]
  /** Patches that a predictions file cannot represent, because they are not UTF-8. */
  unwritable: string[]
  /** Tasks without such an attempt. */
  missing: string[]
}

/**
 * Returns one attempt at every task of an evaluation as predictions. An attempt without a submission is an empty patch.
 * @throws LonghaulError `Config.NotFound` with the existing stages
 */
export async function predictionsOfRun(input: RunPredictionsInput): Promise<RunPredictions> {
  const { store, run, attempt, model } = input
  const plan = await findPlan(input)
  const records = Map.groupBy(await readEpisodeRecords(store, plan), ({ taskId }) => taskId)
  const found: RunPredictions = { stage: plan.stage, predictions: [], unwritable: [], missing: [] }
  for (const taskId of plan.taskIds) {
    const played = (records.get(taskId) ?? []).filter(({ disposition }) => isPolicyDisposition(disposition))
    const record = played.toSorted((a, b) => a.index - b.index)[attempt - 1]
    if (record === undefined) {
      found.missing.push(taskId)
      continue
    }
    const patch = await patchOf(store, record)
    if (patch === null) found.unwritable.push(taskId)
    else found.predictions.push({ taskId, model: model ?? record.policy, patch })
  }
  if (found.predictions.length > 0) return found
  throw new LonghaulError({
    code: 'Config.NotFound',
    message: `Expected attempt ${attempt} at the tasks of ${run}, stage ${plan.stage}, but there is none`,
  })
}

async function findPlan({ store, run, stage }: RunPredictionsInput) {
  const plans = await readIterationPlans(store, run)
  const matching = plans.filter((plan) =>
    stage === null ? purposeOf(plan.stage).kind === 'evaluation' : plan.stage === stage,
  )
  const [only, ...others] = matching
  if (only !== undefined && others.length === 0) return only
  const stages = [...new Set(plans.map((plan) => plan.stage))].join(', ')
  const message =
    plans.length === 0
      ? `No run called ${JSON.stringify(run)} with episodes is in the artifact store at ${store.locate('runs')}`
      : matching.length === 0
        ? `Expected a stage of ${run}, one of ${stages}; got ${stage ?? 'no evaluation'}`
        : `Expected one evaluation of ${run}, such as ${run}:${matching[0]?.stage}: a file of predictions has one patch a task. There are ${stages}`
  throw new LonghaulError({ code: 'Config.NotFound', message })
}

/** Returns null if the bytes are not UTF-8, because a changed patch would be another prediction. */
async function patchOf(store: ArtifactStore, { episode }: EpisodeRecord): Promise<string | null> {
  const bytes = (await store.read(episodeKeys.patch(episode))) ?? new Uint8Array()
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return null
  }
}
