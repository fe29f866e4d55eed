/** The stored evaluation of a published data set, produced by the activities of a run; only the episodes are written here. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { summarizeEvaluation } from '../../src/activities/evaluation/derive-evaluation.ts'
import { writeReport } from '../../src/activities/evaluation/write-report.ts'
import { planIteration } from '../../src/activities/run/plan-iteration.ts'
import { prepareSuite } from '../../src/activities/evaluation/prepare-suite.ts'
import { createTaskReader, readOrThrow } from '../../src/activities/runtime/stored-records.ts'
import { loadPublished, loadTasksAndFile } from '../../src/adapters/datasets/load-tasks.ts'
import { plainValue } from '../../src/adapters/datasets/plain-value.ts'
import { findNewestSplit } from '../../src/adapters/datasets/newest-split.ts'
import { identityOfImport } from '../../src/adapters/datasets/published-suite.ts'
import type { ArtifactStore } from '../../src/contracts/artifacts.types.ts'
import { episodeId, episodeKeys, gateKeys, policyKeys, runKeys, suiteKeys } from '../../src/contracts/keys.ts'
import type { CompareRecipe, Recipe } from '../../src/contracts/recipe.types.ts'
import type { PublishedPart, SuiteManifest, SuiteSource } from '../../src/contracts/tasks.types.ts'
import type { EvaluationRecord } from '../../src/contracts/evaluations.types.ts'
import type { TrackerRecipe } from '../../src/contracts/trackers.types.ts'
import type { PolicyRef } from '../../src/contracts/policy.types.ts'
import { type Attempt, makeFacts } from './evaluation-records.ts'
import { makeTrainingRecipe } from './training-records.ts'
import { putPart } from './record-examples.ts'

const POLICY: PolicyRef = {
  version: 'v000000-aaaaaaaa',
  uri: '',
  manifestSha256: '',
  globalStep: 0,
  checkpointUri: null,
  checkpointSha256: null,
}

export interface EvaluatedRunInput {
  store: ArtifactStore
  /** Folder for the file of rows. */
  root: string
  run: string
  rows: readonly Record<string, unknown>[]
  /** Attempts at each row's task, in the order of the rows; the same number for each. */
  attempts: readonly Attempt[][]
  cutoff: string | null
  /** @default a published file */
  kind?: 'file' | 'rows'
  /** An existing file under `root` instead of one that is written from `rows`. */
  path?: string
  filters?: string[]
  /** A data set of a hub instead of a file; `attempts` belong to its suite, in order. */
  hub?: { source: SuiteSource; url: string }
  /** The recipe's `evaluate.compare`. */
  compare?: CompareRecipe
  /** The policy that played. @default one of its own */
  policy?: PolicyRef
  /** The recipe's `evaluate.quick`. */
  quick?: string[]
  /** The recipe's trackers. */
  trackers?: TrackerRecipe[]
}

/** @returns the stored evaluation; its report files are in the run's folder */
export async function makeEvaluatedRun(input: EvaluatedRunInput): Promise<EvaluationRecord> {
  const { store, root, run, attempts, cutoff } = input
  const source = input.hub?.source ?? (await writeRows(input))
  const recipe = makeRecipe(
    source,
    { attempts: attempts[0]?.length ?? 1, quick: input.quick ?? null, compare: input.compare ?? null },
    cutoff,
  )
  await putPart(store, runKeys.claim(run), {
    schema: 'longhaul.run/1',
    run,
    kind: 'eval',
    workflowId: `eval/${run}`,
  })
  recipe.trackers = input.trackers ?? []
  await putPart(store, runKeys.recipe(run), { schema: 'longhaul.recipe/1', hash: 'ab', recipe })
  const { policy = POLICY } = input
  await putPart(store, policyKeys.ref(policy.version), policy)

  const places = { hubUrl: input.hub?.url ?? null, findFile: (path: string) => join(root, path) }
  const published = {
    identify: (...args: [never, never]) => identityOfImport(...args, places),
    load: (...args: [never, never]) => loadPublished(...args, places),
    newestSplit: (from: { dataset: string; revision: string | null }) =>
      findNewestSplit({ ...from, hubUrl: places.hubUrl }),
  }
  const load = (from: SuiteSource) => loadTasksAndFile(from, undefined, places)
  const { suite } = await prepareSuite({ store, loadTasks: load, published, recipe, run }, 'heldOut')
  const { taskIds } = await readOrThrow<SuiteManifest>(store, suiteKeys.manifest(suite))
  await putPart(store, gateKeys.gated(run, suite), {
    schema: 'longhaul.gated-suite/2',
    suite,
    admitted: taskIds,
    refused: [],
  })
  const place = { run, stage: 'eval-nightly', iteration: 0 }
  await planIteration({ store, recipe }, { ...place, suite })
  for (const [task, taskId] of taskIds.entries()) {
    for (const [index, attempt] of (attempts[task] ?? []).entries()) {
      await storeEpisode(store, { ...place, taskId, index, policy: policy.version }, attempt)
    }
  }
  const { evaluation } = await summarizeEvaluation(
    { store, tasks: createTaskReader(store) },
    { run, name: 'nightly', stage: place.stage, policy, suite },
  )
  await writeReport({ store }, { run, durations: { total: 12.5 } })
  return readOrThrow<EvaluationRecord>(store, evaluation.key)
}

async function writeRows(input: EvaluatedRunInput): Promise<SuiteSource> {
  const { root, run, rows, kind = 'file', filters = [], path = `${run}.jsonl` } = input
  if (input.path === undefined)
    await writeFile(join(root, path), rows.map((row) => `${JSON.stringify(plainValue(row))}\n`).join(''))
  const part: PublishedPart = { filters, ids: null, evidence: null, refused: 'fail', limit: null }
  return kind === 'file' ? { kind, path, ...part } : { kind, path, limit: null }
}

function makeRecipe(
  heldOut: SuiteSource,
  evaluate: Pick<Recipe['evaluate'], 'attempts' | 'quick' | 'compare'>,
  cutoff: string | null,
): Recipe {
  const recipe = makeTrainingRecipe()
  return {
    ...recipe,
    model: { ...recipe.model, cutoff },
    data: { train: heldOut, heldOut, gate: { repeats: 1, refused: 'fail' } },
    evaluate: { ...recipe.evaluate, ...evaluate },
    rollout: { maxReplacements: 0, maxOpenEpisodes: 4 },
  } as unknown as Recipe
}

async function storeEpisode(
  store: ArtifactStore,
  identity: { run: string; stage: string; iteration: number; taskId: string; index: number; policy: string },
  attempt: Attempt,
): Promise<void> {
  const episode = episodeId(identity)
  const { record, verdict } = makeFacts(attempt, { ...identity, turns: 2 })
  await putPart(store, episodeKeys.result(episode), record)
  await putPart(store, episodeKeys.start(episode), { episode, startedAtMs: 1000 })
  await putPart(store, episodeKeys.observation(episode, record.turns - 1), { episode, observedAtMs: 3500 })
  if (verdict !== null) await putPart(store, episodeKeys.verdict(episode), verdict)
}
