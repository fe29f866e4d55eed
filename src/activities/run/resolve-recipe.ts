import { basename } from 'node:path'
import type { ResolveRecipeInput, RunKind } from '../../contracts/activities.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { CodeRecord } from '../../contracts/costs.types.ts'
import { assertNever, LonghaulError } from '../../contracts/errors.ts'
import { evaluationOf } from '../../contracts/episode-purpose.ts'
import { runKeys } from '../../contracts/keys.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import type { SuiteSource } from '../../contracts/tasks.types.ts'
import type { ResolvedRun } from '../../contracts/workflows.types.ts'
import { isReservedStage, limitNames } from '../../domain/statistics/evaluation-limits.ts'
import { readNamedEvaluation } from '../evaluation/record-night.ts'
import { recordCode } from './record-code.ts'
import { playAlone, type RootRegistry } from './play-alone.ts'
import { allocateRun, requireRunName, untilForgotten } from './run-names.ts'
import type { StoredRecipe } from '../../contracts/run-records.types.ts'

export type RecipeLoader = (input: {
  name: string
  text?: string
  overrides?: Record<string, unknown>
}) => Promise<{ recipe: Recipe; hash: string }>

/** @throws LonghaulError listing all files and directories that the recipe names and this worker lacks */
export type PlaceChecker = (recipe: Recipe, kind: RunKind) => Promise<void>

/** First activity of every root: parses the recipe, names the run, and stores the resolved recipe. */
export async function resolveRecipe(
  deps: {
    store: ArtifactStore
    loadRecipe: RecipeLoader
    checkPlaces: PlaceChecker
    /** @default no viewer is known */
    viewerUrl?: string | null
    /** @default another root is not looked for */
    roots?: RootRegistry
    /** The code that resolves the run. @default not recorded */
    code?: Omit<CodeRecord, 'schema'>
  },
  input: ResolveRecipeInput,
  /** The execution that asks, which another one follows after a reset. @default the first of its chain */
  runId: string = input.firstExecutionRunId,
): Promise<ResolvedRun> {
  requireRunName(input.run)
  const { recipe, hash } = await deps.loadRecipe({
    name: input.recipe,
    ...(input.recipeText === undefined ? {} : { text: input.recipeText }),
    ...(input.overrides === undefined ? {} : { overrides: input.overrides }),
  })
  refuseUntrainable(recipe, input.kind)
  const claim = await allocateRun(deps.store, {
    run: input.run,
    kind: input.kind,
    recipe: recipe.name,
    recipeHash: hash,
    workflowId: input.workflowId,
    firstExecutionRunId: input.firstExecutionRunId,
    date: input.date,
    ...(input.kind === 'eval' ? { evaluation: ownEvaluation(recipe), policy: input.policy ?? 'recipe' } : {}),
  })
  const { workflowId } = input
  if (deps.roots !== undefined) {
    await playAlone({ store: deps.store, roots: deps.roots, run: claim.run, player: { workflowId, runId } })
  }
  // A continued run may have read these files long ago. A new run without them would fail after hours of gates.
  const isNew = (await deps.store.readRecord(runKeys.recipe(claim.run))) === null
  if (isNew) {
    await untilForgotten(deps.store, claim.run)
    await deps.checkPlaces(recipe, input.kind)
    if (input.kind === 'eval') await requireBaseline(deps.store, recipe)
  }
  const stored: StoredRecipe = { schema: 'longhaul.recipe/1', hash, recipe }
  const ref = await deps.store.putRecord(runKeys.recipe(claim.run), stored)
  if (deps.code !== undefined) await recordCode(deps.store, { run: claim.run, code: deps.code })
  const suites = Object.keys(recipe.evaluate.suites)
  return {
    run: claim.run,
    recipe: ref,
    recipeName: recipe.name,
    summary: `${recipe.name} · ${recipe.model.base}`.slice(0, 120),
    rft: recipe.rft !== null,
    stages: (recipe.reinforce?.stages ?? []).map(({ name, until }) => ({
      name,
      maxIterations: until.maxIterations,
      ...(until.plateau === null ? {} : { plateau: true as const }),
    })),
    evaluateEvery: recipe.reinforce?.evaluateEvery ?? null,
    gateRepeats: recipe.data.gate.repeats,
    gateWidth: recipe.data.gate.width,
    heldOutName: suiteName(recipe, 'heldOut'),
    labels: { model: recipe.model.base.slice(0, MOST_IN_A_LABEL), split: splitOf(recipe.data.heldOut) },
    ...(typeof deps.viewerUrl === 'string' ? { viewer: deps.viewerUrl } : {}),
    ...(suites.length === 0 ? {} : { suites }),
    ...(input.kind === 'eval' ? { nights: true as const } : {}),
    ...(input.kind === 'eval' && recipe.evaluate.policy === 'kept' ? { policies: 'kept' as const } : {}),
    ...(claim.evaluation === undefined ? {} : { evaluation: claim.evaluation }),
  }
}

/** Checked now, because a missing baseline would only be found at the end of the night. */
async function requireBaseline(store: ArtifactStore, { evaluate }: Recipe): Promise<void> {
  const baseline = evaluate.compare?.baseline ?? null
  if (baseline !== null) await readNamedEvaluation(store, baseline)
}

/** The server refuses longer keywords. */
const MOST_IN_A_LABEL = 255

function splitOf(source: SuiteSource): string {
  switch (source.kind) {
    case 'synthetic':
      return `synthetic/${source.split}`
    case 'hub':
      return `${source.dataset}/${source.split}`.slice(0, MOST_IN_A_LABEL)
    case 'rows':
    case 'file':
      return basename(source.path).slice(0, MOST_IN_A_LABEL)
    default:
      return assertNever(source)
  }
}

/** Uses the recipe's name, unless it would be read as another evaluation of a run: one after a stage, inside one, or on a further
 *  suite. */
function ownEvaluation(recipe: Recipe): string {
  const { name } = recipe
  const { iteration, suite } = evaluationOf(name)
  const isTaken = isReservedStage(name) || limitNames(recipe).includes(name) || iteration !== null || suite !== null
  return isTaken ? 'alone' : name
}

/** @param which `train`, `heldOut`, or one of `evaluate.suites` */
export function suiteName(recipe: Recipe, which: string): string {
  return `${recipe.name}-${which === 'heldOut' ? 'held-out' : which}`
}

/** Refuses at the start what no worker of this version can run, and not after hours. */
function refuseUntrainable(recipe: Recipe, kind: RunKind): void {
  if (kind === 'train' && recipe.policyServer.kind === 'chat') {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message:
        'Expected a policy server that returns token ids (embedded, vllm or sglang) for training, got policyServer.kind chat; a chat endpoint can only be evaluated (longhaul evaluate)',
    })
  }
}
