import type { OpenGradingInput } from '../../contracts/activities.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { GradingInstance, GradingPlan } from '../../contracts/grading.types.ts'
import { gradingKeys, runKeys } from '../../contracts/keys.ts'
import type { OpenedGrading } from '../../contracts/workflows.types.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { allocateRun, requireRunName } from '../run/run-names.ts'
import type { StoredRecipe } from '../runtime/stored-recipe.ts'
import { readOrThrow, type TaskReader } from '../runtime/stored-tasks.ts'
import { collectPatches } from './collect-patches.ts'
import { profileFor } from './eval-script.ts'
import { resolveSuite, type SuiteDependencies } from './resolve-suite.ts'
import { storePredictions } from './store-predictions.ts'

export type OpenDependencies = SuiteDependencies & { tasks: TaskReader }

/** A plan without the run that it gets, and whose limits its containers have. */
interface Planned {
  plan: Omit<GradingPlan, 'schema' | 'run'>
  recipe: StoredRecipe
  /** For summaries. */
  name: string
}

/** First activity of a grading run: what it grades, under which name, with which limits. A repetition finds the same. */
export async function openGrading(deps: OpenDependencies, input: OpenGradingInput): Promise<OpenedGrading> {
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
  const patches = await collectPatches(deps.store, { run: source, stages })
  if (patches.length === 0) {
    throw new LonghaulError({
      code: 'Config.NotFound',
      message: `Expected graded patches of run ${source}${stages.length === 0 ? '' : ` in ${stages.join(', ')}`} in the artifact store, found none`,
    })
  }
  const instances: GradingInstance[] = []
  for (const { suite, taskId, model, patch, episode, before } of patches) {
    const task = await deps.tasks({ suite, taskId })
    instances.push({ suite, taskId, profile: profileFor(task, profile), model, patch, fault: null, episode, before })
  }
  const own = input.recipe === undefined && input.recipeText === undefined
  return {
    plan: { source: { kind: 'run', run: source, stages }, profile, suite: null, ...ordered(instances) },
    recipe: own
      ? await readOrThrow<StoredRecipe>(deps.store, runKeys.recipe(source))
      : await loadLimits(deps, { ...input, recipe: input.recipe ?? 'nightly' }),
    name: `patches of ${source}`,
  }
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

/** What is not run comes last, so that places 0 to `runnable` − 1 are work. */
function ordered(instances: GradingInstance[]): Pick<GradingPlan, 'instances' | 'runnable'> {
  const run = instances.filter(({ patch }) => patch !== null)
  return { instances: [...run, ...instances.filter(({ patch }) => patch === null)], runnable: run.length }
}
