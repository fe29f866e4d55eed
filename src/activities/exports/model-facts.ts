/** Facts about a policy from the store's records: its origin, its training and its scores. */
import { basename } from 'node:path'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { EvaluationRecord } from '../../contracts/evaluations.types.ts'
import { evaluationOf, purposeOf } from '../../contracts/episode-purpose.ts'
import { policyKeys, runKeys, suiteKeys } from '../../contracts/keys.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import type { Promotion, TrainingRecord } from '../../contracts/training.types.ts'
import { readImportedChatFormat } from '../../adapters/trainer-job/job/policy-facts.ts'
import { readIterationPlans } from '../evaluation/played-tasks.ts'
import { playedSuites } from '../evaluation/report-data.ts'
import { readSuiteOrigin } from '../evaluation/suite-origin.ts'
import { readOrThrow } from '../runtime/stored-records.ts'
import { newestPromotion } from '../training/policies.ts'
import type { CardBase, CardEvaluation, CardTraining, ModelFacts } from '../../report/exports/model-card.ts'
import type { StoredRecipe } from '../../contracts/run-records.types.ts'

/** @param asked a version, or `promoted` for the newest promotion. @throws LonghaulError `Config.*` */
export async function findPublishable(store: ArtifactStore, asked: string): Promise<PolicyRef> {
  const ref =
    asked === 'promoted'
      ? (await newestPromotion(store)).policy
      : /^[\w.-]{1,200}$/.test(asked)
        ? await store.readRecord<PolicyRef>(policyKeys.ref(asked))
        : null
  if (ref === null) {
    const newest = (await store.list('policies/')).flatMap(
      (key) => /^policies\/(v\d{6}-[0-9a-f]{8})\.json$/.exec(key)?.[1] ?? [],
    )
    throw new LonghaulError({
      code: 'Config.NotFound',
      message: `Expected promoted or the version of a policy in ${store.locate('policies')}, got ${JSON.stringify(asked)}; ${newest.length === 0 ? 'it has none' : `its newest are ${newest.slice(-5).join(', ')}`} (set LONGHAUL_ARTIFACTS to use another store)`,
    })
  }
  if (/^v\d{6}-[0-9a-f]{8}$/.test(ref.version)) return ref
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected a policy whose weights are in the store, got ${JSON.stringify(ref.version)}: the owner of a chat endpoint has its weights`,
  })
}

export interface GatherModelFactsInput {
  store: ArtifactStore
  policy: PolicyRef
  onProgress: (text: string) => void
  signal: AbortSignal
}

export async function gatherModelFacts(input: GatherModelFactsInput): Promise<ModelFacts> {
  const { store, policy } = input
  const run = await runOf(store, policy)
  const stored = run === null ? null : await store.readRecord<StoredRecipe>(runKeys.recipe(run))
  const recipe = stored?.recipe ?? null
  const suites = run === null ? [] : await playedSuites(store, run)
  const found = await importedFrom(store, policy)
  return {
    policy: { version: policy.version, manifestSha256: policy.manifestSha256, globalStep: policy.globalStep },
    run,
    recipe:
      stored === null || recipe === null
        ? null
        : {
            name: recipe.name,
            hash: stored.hash,
            seed: recipe.seed,
            // Never its directory, which is specific to this machine.
            base: basename(recipe.model.base),
            train: recipe.model.train,
            lora: recipe.model.lora,
            context: recipe.evaluate.context,
            cutoff: recipe.model.cutoff ?? null,
          },
    chatFormat: found.chatFormat ?? recipe?.model.chatFormat ?? null,
    base: policy.globalStep === 0 ? null : await baseOf(store, run),
    origin: found.origin,
    training: run === null ? [] : await trainingOf(store, run, policy),
    suites: suites.filter(({ uses }) => uses.some(isTraining)),
    licenses: run === null ? [] : await licensesOf(input, run),
    evaluations: await evaluationsOf(input),
  }
}

/**
 * Finds the base of a policy's adapters, both locally and at the hub.
 * @throws LonghaulError `Config.Invalid` if there are no adapters, or if others could not load them
 */
export async function findAdapterBase(
  store: ArtifactStore,
  policy: PolicyRef,
  facts: ModelFacts,
): Promise<{ base: PolicyRef; origin: NonNullable<ModelFacts['origin']> }> {
  const base = facts.run === null ? null : await store.readRecord<PolicyRef>(runKeys.policy(facts.run, 'base'))
  const fault =
    policy.globalStep === 0
      ? 'a base was not trained'
      : facts.recipe !== null && facts.recipe.lora === null
        ? 'its recipe trained all weights (model.train: full)'
        : policy.checkpointUri === null
          ? 'its adapters were merged, and it has no checkpoint that keeps them'
          : base === null
            ? 'the records of its run, which name the base, are not stored any more'
            : null
  const origin = facts.base?.origin ?? null
  if (fault === null && base !== null && origin !== null) return { base, origin }
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected a policy with adapters of a base on the hub, got one without: ${fault ?? 'its base was not imported from the hub, so others could not load them'}. Publish the whole policy, without --adapter`,
    details: { policy: policy.version },
  })
}

/** Returns the run, which the trainer records beside the weights and a promotion records too. Null for a base, and for a run whose
 *  records were removed. */
async function runOf(store: ArtifactStore, policy: PolicyRef): Promise<string | null> {
  if (policy.globalStep === 0) return null
  const runs = await store.folders('runs/')
  const noted = await readJson<{ run?: unknown }>(store, policy, 'attempt.json')
  if (typeof noted?.run === 'string' && runs.includes(noted.run)) return noted.run
  for (const key of (await store.list(policyKeys.promotions)).toReversed()) {
    const promotion = await store.readRecord<Promotion>(key)
    if (promotion?.policy.version === policy.version && runs.includes(promotion.run)) return promotion.run
  }
  return null
}

async function baseOf(store: ArtifactStore, run: string | null): Promise<CardBase | null> {
  const base = run === null ? null : await store.readRecord<PolicyRef>(runKeys.policy(run, 'base'))
  if (base === null) return null
  const { origin } = await importedFrom(store, base)
  return { version: base.version, manifestSha256: base.manifestSha256, origin }
}

interface Imported {
  chatFormat: string | null
  origin: ModelFacts['origin']
}

/** The origin that `longhaul models import` recorded: `OWNER/NAME@COMMIT`, with `:FILE` for a GGUF. */
async function importedFrom(store: ArtifactStore, policy: PolicyRef): Promise<Imported> {
  try {
    const chatFormat = await readImportedChatFormat(policy, store.weights)
    const record = await readJson<{ source?: { origin?: unknown } }>(store, policy, 'longhaul.json')
    const { origin } = record?.source ?? {}
    const [, model, revision] =
      /^([\w.-]+\/[\w.-]+)@([0-9a-f]{40})(?::.*)?$/.exec(typeof origin === 'string' ? origin : '') ?? []
    return {
      chatFormat,
      origin: model === undefined || revision === undefined ? null : { model, revision },
    }
  } catch (error) {
    // The weights of a base may be missing in the store; the card is correct without them.
    if (isLonghaulError(error) && error.code !== 'Artifact.Missing') throw error
    return { chatFormat: null, origin: null }
  }
}

async function readJson<T>(store: ArtifactStore, policy: PolicyRef, name: string): Promise<T | null> {
  const bytes = await store.weights.readFile({ policy, part: 'policy', name })
  if (bytes === null) return null
  try {
    return JSON.parse(Buffer.from(bytes).toString('utf8')) as T
  } catch {
    return null
  }
}

/** Stages in training order, up to this policy. */
async function trainingOf(store: ArtifactStore, run: string, policy: PolicyRef): Promise<CardTraining[]> {
  const keys = (await store.list(`runs/${run}/training/`)).filter((key) => key.endsWith('.json'))
  const jobs: { record: TrainingRecord; step: number }[] = []
  for (const key of keys) {
    const record = await readOrThrow<TrainingRecord>(store, key)
    const made = await store.readRecord<PolicyRef>(policyKeys.ref(record.policy))
    if (made !== null && made.globalStep <= policy.globalStep) jobs.push({ record, step: made.globalStep })
  }
  jobs.sort((a, b) => a.step - b.step)
  const stages = Map.groupBy(jobs, ({ record }) => record.stage)
  return [...stages].map(([stage, of]) => ({
    stage,
    jobs: of.length,
    steps: of.reduce((sum, { record }) => sum + record.steps.length, 0),
  }))
}

function isTraining(stage: string): boolean {
  return purposeOf(stage).kind !== 'evaluation'
}

/** Licences of the repositories whose tasks were used for training, as stated in their rows. */
async function licensesOf(
  { store, onProgress, signal }: GatherModelFactsInput,
  run: string,
): Promise<ModelFacts['licenses']> {
  const played = new Map<string, { suite: string; taskId: string }>()
  for (const { suite, stage, taskIds } of await readIterationPlans(store, run)) {
    if (!isTraining(stage)) continue
    for (const taskId of taskIds) played.set(`${suite} ${taskId}`, { suite, taskId })
  }
  const counts = new Map<string | null, number>()
  let read = 0
  for (const { suite, taskId } of played.values()) {
    signal.throwIfAborted()
    read += 1
    onProgress(`reading licences, task ${read} of ${played.size}`)
    const stored = await store.readRecord<{ row: { license_name?: unknown } }>(suiteKeys.row(suite, taskId))
    const name = stored?.row.license_name
    const license = typeof name === 'string' && name.trim() !== '' ? name : null
    counts.set(license, (counts.get(license) ?? 0) + 1)
  }
  return [...counts].map(([name, tasks]) => ({ name, tasks })).toSorted((a, b) => b.tasks - a.tasks)
}

/** Evaluations of any run of the store. Those inside a stage are intermediate and not scores of a policy. */
async function evaluationsOf({ store, policy, onProgress, signal }: GatherModelFactsInput): Promise<CardEvaluation[]> {
  const runs = await store.folders('runs/')
  const found: CardEvaluation[] = []
  const originOf = cachedOrigins(store)
  for (const [index, run] of runs.entries()) {
    signal.throwIfAborted()
    onProgress(`reading evaluations, run ${index + 1} of ${runs.length}`)
    for (const key of await store.list(`runs/${run}/evaluations/`)) {
      if (!key.endsWith('.json')) continue
      const record = await store.readRecord<EvaluationRecord>(key)
      if (record?.schema !== 'longhaul.evaluation/2' || record.score.policy !== policy.version) continue
      if (evaluationOf(record.name).iteration !== null) continue
      found.push({ record, origin: record.origin ?? (await originOf(record.suite)) })
    }
  }
  return found
}

function cachedOrigins(store: ArtifactStore): (suite: string) => ReturnType<typeof readSuiteOrigin> {
  const known = new Map<string, ReturnType<typeof readSuiteOrigin>>()
  return (suite) => {
    const origin = known.get(suite) ?? readSuiteOrigin(store, suite)
    known.set(suite, origin)
    return origin
  }
}
