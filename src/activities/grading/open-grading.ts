import { isDeepStrictEqual } from 'node:util'
import type { OpenGradingInput } from '../../contracts/activities.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { GradingInstance, GradingPlan, ShortVerdict } from '../../contracts/grading.types.ts'
import { gradingKeys, runKeys, episodeKeys } from '../../contracts/keys.ts'
import type { OpenedGrading } from '../../contracts/workflows.types.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { playAlone, type RootRegistry } from '../run/play-alone.ts'
import { allocateRun, requestedName, requireRunName, unknownRun, untilForgotten } from '../run/run-names.ts'
import { readOrThrow, type TaskReader } from '../runtime/stored-records.ts'
import { profileFor } from './run-grading.ts'
import { resolveSuite, type SuiteDependencies } from './resolve-suite.ts'
import { storePredictions } from './store-predictions.ts'
import type { ArtifactRef, ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { EpisodeRecord } from '../../contracts/episodes.types.ts'
import { readEpisodeRecords } from '../episode/episode-records.ts'
import { readIterationPlans } from '../evaluation/played-tasks.ts'
import { readVerdict } from './stored-plan.ts'
import type { StoredRecipe } from '../../contracts/run-records.types.ts'

interface OpenDependencies extends SuiteDependencies {
  tasks: TaskReader
  /** @default another root is not looked for */
  roots?: RootRegistry
}

/** A plan, and the run whose limits its containers use. */
interface Planned {
  plan: Omit<GradingPlan, 'schema' | 'run'>
  recipe: StoredRecipe
  /** Used in summaries. */
  name: string
}

/** First activity of a grading run. Decides what it grades, under which name and with which limits. A repetition finds the same. */
export async function openGrading(
  deps: OpenDependencies,
  input: OpenGradingInput,
  /** The execution that asks, which another one follows after a reset. @default the first of its chain */
  runId: string = input.firstExecutionRunId,
): Promise<OpenedGrading> {
  requireRunName(input.run)
  const { plan, recipe, name } =
    input.regrade === undefined ? await planPredictions(deps, input) : await planRegrade(deps, input, input.regrade)
  const { workflowId, firstExecutionRunId, date, run } = input
  const claim = await allocateRun(deps.store, {
    run,
    kind: 'grade',
    recipe: input.regrade === undefined ? 'grade' : `regrade-${input.regrade}`.slice(0, 80),
    // The same name with other patches, tasks or limits is another run.
    recipeHash: sha256Hex(JSON.stringify([recipe.hash, plan])),
    workflowId,
    firstExecutionRunId,
    date,
  })
  if (deps.roots !== undefined) {
    await playAlone({ store: deps.store, roots: deps.roots, run: claim.run, player: { workflowId, runId } })
  }
  if ((await deps.store.readRecord(runKeys.recipe(claim.run))) === null) await untilForgotten(deps.store, claim.run)
  await deps.store.putRecord(runKeys.recipe(claim.run), recipe)
  const stored: GradingPlan = { schema: 'longhaul.grading-plan/1', run: claim.run, ...plan }
  await deps.store.putRecord(gradingKeys.plan(claim.run), stored)
  return { run: claim.run, name, patches: plan.runnable }
}

async function planPredictions(deps: OpenDependencies, input: OpenGradingInput): Promise<Planned> {
  const { predictions, suite: named, profile = null } = input
  if (predictions === undefined || named === undefined) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: 'Expected predictions and suite, or regrade with the name of a run',
    })
  }
  const { manifest, recipe } = await resolveSuite(deps, named)
  const set = await storePredictions({ store: deps.store, predictions, suite: manifest })
  const instances: GradingInstance[] = []
  for (const { taskId, model, patch, fault } of set.predictions) {
    const task = await deps.tasks({ suite: manifest.hash, taskId })
    const common = { suite: manifest.hash, taskId, model, patch, fault, episode: null, before: null }
    instances.push({ ...common, profile: profileFor(task, profile) })
  }
  const { hash, format, duplicates } = set
  return {
    plan: {
      source: { kind: 'predictions', hash, format, duplicates },
      profile,
      suite: { hash: manifest.hash, name: manifest.name },
      ...ordered(instances),
    },
    recipe: await loadLimits(deps, { ...input, recipe: input.recipe ?? recipe ?? 'nightly' }),
    name: `${instances.length} predictions for ${manifest.name}`,
  }
}

async function planRegrade(deps: OpenDependencies, input: OpenGradingInput, source: string): Promise<Planned> {
  const { stages = [], profile = null } = input
  const from: GradingPlan['source'] = { kind: 'run', run: source, stages }
  const name = `patches of ${source}`
  const begun = await begunPlan(deps.store, input)
  if (begun !== null && begun.profile === profile && isDeepStrictEqual(begun.source, from)) {
    const { schema: _schema, run: _run, ...plan } = begun
    return { plan, recipe: await limitsOfRegrade(deps, input, source), name }
  }
  await requireSource(deps.store, { run: source, stages })
  const patches = await collectPatches(deps.store, { run: source, stages })
  if (patches.length === 0) {
    throw new LonghaulError({
      code: 'Config.NotFound',
      message: `Expected submitted patches of run ${source}${stages.length === 0 ? '' : ` in ${stages.join(', ')}`}, but it has none`,
    })
  }
  const instances: GradingInstance[] = []
  for (const { suite, taskId, model, patch, episode, before } of patches) {
    const task = await deps.tasks({ suite, taskId })
    instances.push({ suite, taskId, profile: profileFor(task, profile), model, patch, fault: null, episode, before })
  }
  const plan = { source: from, profile, suite: null, ...ordered(instances) }
  return { plan, recipe: await limitsOfRegrade(deps, input, source), name }
}

/**
 * Of a run whose patches are to be graded again.
 * @throws LonghaulError `Config.NotFound` with near names of runs, or with the run's stages
 */
export async function requireSource(
  store: ArtifactStore,
  { run, stages }: { run: string; stages: readonly string[] },
): Promise<void> {
  requireRunName(run)
  if (!(await store.folders('runs/')).includes(run)) throw await unknownRun(store, run)
  if (stages.length === 0) return
  const played = await store.folders(episodeKeys.ofRun(run))
  const absent = stages.filter((stage) => !played.includes(stage))
  if (absent.length === 0) return
  throw new LonghaulError({
    code: 'Config.NotFound',
    message: `Run ${run} has no episodes in ${absent.join(', ')}. Its stages: ${played.join(', ') || 'none'}`,
  })
}

/** Those of the run whose patches are graded again, unless the request names others. */
function limitsOfRegrade(deps: OpenDependencies, input: OpenGradingInput, source: string): Promise<StoredRecipe> {
  const own = input.recipe === undefined && input.recipeText === undefined
  return own
    ? readOrThrow<StoredRecipe>(deps.store, runKeys.recipe(source))
    : loadLimits(deps, { ...input, recipe: input.recipe ?? 'nightly' })
}

/**
 * What an earlier execution of this run decided to grade. The run whose patches are graded again may still be played: its patches of
 * today would be another run.
 */
async function begunPlan(store: ArtifactStore, { run, workflowId }: OpenGradingInput): Promise<GradingPlan | null> {
  const name = run ?? requestedName({ workflowId, kind: 'grade' })
  return name === null ? null : store.readRecord<GradingPlan>(gradingKeys.plan(name))
}

async function loadLimits(
  { loadRecipe }: OpenDependencies,
  { recipe: name, recipeText, overrides }: Pick<OpenGradingInput, 'recipeText' | 'overrides'> & { recipe: string },
): Promise<StoredRecipe> {
  const { recipe, hash } = await loadRecipe({
    name,
    ...(recipeText === undefined ? {} : { text: recipeText }),
    ...(overrides === undefined ? {} : { overrides }),
  })
  return { schema: 'longhaul.recipe/1', hash, recipe }
}

/** Entries that are not run come last, so that indices 0 to `runnable` − 1 are work. */
function ordered(instances: GradingInstance[]): Pick<GradingPlan, 'instances' | 'runnable'> {
  const run = instances.filter(({ patch }) => patch !== null)
  return { instances: [...run, ...instances.filter(({ patch }) => patch === null)], runnable: run.length }
}

interface StoredPatch {
  suite: string
  taskId: string
  /** The policy of an episode, or the model of a prediction. */
  model: string
  patch: ArtifactRef
  episode: string | null
  before: ShortVerdict | null
}

/** Every patch of a run that can be graded again, with its first verdict: those of its episodes, or of its predictions. */
async function collectPatches(
  store: ArtifactStore,
  { run, stages }: { run: string; stages: readonly string[] },
): Promise<StoredPatch[]> {
  const graded = await store.readRecord<GradingPlan>(gradingKeys.plan(run))
  return graded === null ? ofEpisodes(store, run, stages) : ofPlan(store, graded)
}

async function ofPlan(store: ArtifactStore, { run, instances }: GradingPlan): Promise<StoredPatch[]> {
  const patches: StoredPatch[] = []
  for (const instance of instances) {
    const { suite, taskId, model, patch, episode } = instance
    if (patch === null) continue
    patches.push({ suite, taskId, model, patch, episode, before: await readVerdict(store, run, instance) })
  }
  return patches
}

async function ofEpisodes(store: ArtifactStore, run: string, stages: readonly string[]): Promise<StoredPatch[]> {
  const patches: StoredPatch[] = []
  for (const plan of await readIterationPlans(store, run)) {
    if (stages.length > 0 && !stages.includes(plan.stage)) continue
    for (const record of await readEpisodeRecords(store, plan)) {
      const patch = await patchOf(store, record)
      if (patch === null) continue
      const { taskId, policy, episode, verdict, verdictReason: reason } = record
      const before = verdict === null ? null : { kind: verdict, reason }
      patches.push({ suite: plan.suite, taskId, model: policy, patch, episode, before })
    }
  }
  return patches
}

/** Returns null if nothing was submitted or the submission is empty, so there is nothing to run. */
async function patchOf(store: ArtifactStore, { episode }: EpisodeRecord): Promise<ArtifactRef | null> {
  const key = episodeKeys.patch(episode)
  const bytes = await store.read(key)
  return bytes === null || bytes.length === 0 ? null : { key, sha256: sha256Hex(bytes), bytes: bytes.length }
}
