import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError, isLonghaulError } from '../../contracts/errors.ts'
import { policyKeys, runKeys } from '../../contracts/keys.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import type { ModelRecipe, Recipe } from '../../contracts/recipe.types.ts'
import type { StageScore } from '../../contracts/workflows.types.ts'
import { readImportedChatFormat, readPolicyFacts } from '../../adapters/trainer-job/job/policy-facts.ts'
import { sha256Hex } from '../../platform/hash.ts'
import type { KeptPolicies, Promotion } from '../../contracts/training.types.ts'
import type { TrainingJobInput } from '../../contracts/activities.types.ts'
import { finishedTraining } from '../run/recall-run.ts'

/** @throws LonghaulError `Config.*` */
export type BaseImporter = (model: Pick<ModelRecipe, 'base' | 'rope'>) => Promise<PolicyRef>

/**
 * Resolves a policy name once per run, so that a run that is started again a week later continues with its original policy, regardless
 * of later promotions.
 */
export async function resolveForRun(
  deps: Parameters<typeof resolvePolicy>[0],
  { run, policy }: { run: string; policy: string },
): Promise<PolicyRef> {
  const key = runKeys.policy(run, policy)
  const stored = await deps.store.readRecord<PolicyRef>(key)
  if (stored !== null) return stored
  return (await deps.store.claimRecord<PolicyRef>(key, await resolvePolicy(deps, policy))).record
}

/** Limit of policies, because with more of them a night would not end before the next one. */
const MOST_KEPT = 20

/** The policies that are stored when the run begins, newest promotion first. A continued run plays the same policies. */
export async function keptForRun(
  deps: { store: ArtifactStore; recipe: Recipe },
  run: string,
): Promise<{ policies: PolicyRef[] }> {
  const key = runKeys.keptPolicies(run)
  const stored = await deps.store.readRecord<KeptPolicies>(key)
  if (stored !== null) return { policies: stored.policies }
  const record: KeptPolicies = { schema: 'longhaul.kept-policies/1', policies: await keptPromotions(deps) }
  return { policies: (await deps.store.claimRecord<KeptPolicies>(key, record)).record.policies }
}

/** Each policy once, without those whose directory is gone. */
async function keptPromotions({ store, recipe }: { store: ArtifactStore; recipe: Recipe }): Promise<PolicyRef[]> {
  if (recipe.policyServer.kind === 'chat') return [await chatPolicy({ store, recipe }, 'recipe')]
  const kept = new Map<string, PolicyRef>()
  for (const key of (await store.list(policyKeys.promotions)).toReversed()) {
    const { policy } = (await store.readRecord<Promotion>(key)) ?? {}
    if (policy === undefined || kept.has(policy.version) || !(await isStored(store, policy))) continue
    kept.set(policy.version, await requireRoom(store, policy, [evaluationContext(recipe)]))
    if (kept.size === MOST_KEPT) break
  }
  if (kept.size === 0) throw nothingPromoted()
  return [...kept.values()]
}

async function isStored({ weights }: ArtifactStore, policy: PolicyRef): Promise<boolean> {
  try {
    await readPolicyFacts(policy, weights)
    return true
  } catch (error) {
    // An unreachable bucket says nothing about which policies are stored.
    if (isLonghaulError(error) && error.code === 'Artifact.Unavailable') throw error
    return false
  }
}

/** `base`, `promoted`, `recipe` (the value of `evaluate.policy`) or a version. */
export async function resolvePolicy(
  deps: { store: ArtifactStore; recipe: Recipe; importBase: BaseImporter },
  requested: string,
): Promise<PolicyRef> {
  if (deps.recipe.policyServer.kind === 'chat') return chatPolicy(deps, requested)
  const which = requested === 'recipe' ? deps.recipe.evaluate.policy : requested
  if (which === 'base') {
    const base = await requireChatFormat(deps.store, await deps.importBase(deps.recipe.model), deps.recipe.model)
    return requireRoom(deps.store, base, [...trainingContexts(deps.recipe), evaluationContext(deps.recipe)])
  }
  const ref =
    which === 'promoted'
      ? (await newestPromotion(deps.store)).policy
      : await deps.store.readRecord<PolicyRef>(policyKeys.ref(which))
  if (ref !== null) return requireRoom(deps.store, ref, [evaluationContext(deps.recipe)])
  throw new LonghaulError({
    code: 'Config.NotFound',
    message: `Expected policy to be base, promoted, kept or a published version, got ${JSON.stringify(which)}`,
  })
}

interface Context {
  /** Key of the recipe, for a message. */
  where: string
  tokens: number
}

/** Refuses a context longer than the policy's positions, because episodes would end early. */
async function requireRoom(
  { weights }: ArtifactStore,
  policy: PolicyRef,
  contexts: readonly Context[],
): Promise<PolicyRef> {
  const { window } = (await readPolicyFacts(policy, weights)).positions
  const tooLong = contexts.find(({ tokens }) => window !== null && tokens > window)
  if (tooLong === undefined) return policy
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected ${tooLong.where} to be at most the policy’s ${window} positions, got ${tooLong.tokens}: shorten it, or stretch the base model’s positions with model.rope`,
    details: { policy: policy.version },
  })
}

/** A policy that is played in another format than it was trained on still answers, only worse, and no later check would detect it. */
async function requireChatFormat(
  { weights }: ArtifactStore,
  base: PolicyRef,
  { chatFormat }: ModelRecipe,
): Promise<PolicyRef> {
  const imported = await readImportedChatFormat(base, weights)
  if (imported === null || imported === chatFormat) return base
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected model.chatFormat to be ${imported}, as the import of the base found it, got ${chatFormat}`,
    details: { policy: base.version },
  })
}

function trainingContexts({ rft, reinforce, evaluate }: Recipe): Context[] {
  const context = (where: string) => (one: { context: number }) => ({ where, tokens: one.context })
  return [
    ...(rft === null ? [] : [context('rft.context')(rft)]),
    ...(reinforce?.stages ?? []).map((stage) => context(`context of stage ${stage.name}`)(stage)),
    // Recipes stored by an older version have no limits.
    ...Object.entries(evaluate.limits ?? {}).map(([name, one]) => context(`evaluate.limits.${name}.context`)(one)),
  ]
}

function evaluationContext({ evaluate }: Recipe): Context {
  return { where: 'evaluate.context', tokens: evaluate.context }
}

/**
 * A chat endpoint's policy is identified by address and name, because only its owner knows which weights answer and whether they stay
 * the same. It is stored like any other, so that reports find it.
 */
async function chatPolicy(
  { store, recipe }: { store: ArtifactStore; recipe: Recipe },
  requested: string,
): Promise<PolicyRef> {
  const address = recipe.policyServer.url ?? ''
  const model = recipe.model.base
  const identity = sha256Hex(JSON.stringify([address, model]))
  const slug = model.replaceAll(/[^A-Za-z0-9.]+/g, '-').slice(-40)
  const version = `chat-${slug}-${identity.slice(0, 8)}`
  if (!['recipe', 'base', version].includes(requested)) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected no other policy than the recipe's own endpoint with policyServer.kind chat, got ${JSON.stringify(requested)}; leave out --policy, and name another model in model.base`,
    })
  }
  const ref: PolicyRef = {
    version,
    uri: `${address}#${encodeURIComponent(model)}`,
    manifestSha256: identity,
    globalStep: 0,
    checkpointUri: null,
    checkpointSha256: null,
  }
  await store.putRecord(policyKeys.ref(version), ref)
  return ref
}

export async function newestPromotion(store: ArtifactStore): Promise<Promotion> {
  const promotion = await findNewestPromotion(store)
  if (promotion !== null) return promotion
  throw nothingPromoted()
}

/** Null before the first promotion. */
export async function findNewestPromotion(store: ArtifactStore): Promise<Promotion | null> {
  const last = (await store.list(policyKeys.promotions)).at(-1)
  return last === undefined ? null : store.readRecord<Promotion>(last)
}

function nothingPromoted(): LonghaulError {
  return new LonghaulError({
    code: 'Config.NotFound',
    message:
      'No policy has been promoted yet, so there is none to evaluate. Either promote one (longhaul train promotes the last policy of its run), or evaluate another: --policy base or a version, evaluate.policy in the recipe, or a chat endpoint (policyServer.kind: chat)',
  })
}

/** Takes the next free number. A repeated attempt finds the promotion that it already made. */
export async function promote(
  store: ArtifactStore,
  { run, policy, score }: { run: string; policy: PolicyRef; score: StageScore },
): Promise<{ number: number }> {
  const keys = await store.list(policyKeys.promotions)
  for (const key of keys) {
    const known = await store.readRecord<Promotion>(key)
    if (known?.run === run && known.policy.version === policy.version) return { number: known.number }
  }
  for (let number = keys.length + 1; ; number++) {
    const promotion: Promotion = { schema: 'longhaul.promotion/1', number, run, policy, score }
    const { record, won } = await store.claimRecord(policyKeys.promotion(number), promotion)
    // A bucket may list an older state, without the promotion of an earlier attempt.
    if (won || (record.run === run && record.policy.version === policy.version)) return { number }
  }
}

/**
 * Returns the KL reference policy of a job's loss from the run's records: its base, or the policy that reinforcement began with. Null
 * for jobs whose loss has no KL.
 * @throws LonghaulError `Artifact.Missing`
 */
export async function referencePolicy(
  { store, recipe }: { store: Pick<ArtifactStore, 'list' | 'readRecord'>; recipe: Recipe },
  { run, kind }: Pick<TrainingJobInput, 'run' | 'kind'>,
): Promise<PolicyRef | null> {
  const kl = recipe.reinforce?.loss.kl ?? 0
  if (kind !== 'dapo' || kl === 0) return null
  const base = await store.readRecord<PolicyRef>(runKeys.policy(run, 'base'))
  const isTuned = kl.reference === 'start' && recipe.rft !== null
  const tuned = isTuned ? await finishedTraining(store, { run, stage: 'rft', iteration: 0 }) : null
  // Fine-tuning without a batch ends with its initial policy.
  const found = tuned?.policy ?? base
  if (found !== null && (!isTuned || tuned !== null)) return found
  throw new LonghaulError({
    code: 'Artifact.Missing',
    message: 'Expected the run’s record of the policy that reinforce.loss.kl names',
    details: { run, reference: kl.reference },
  })
}
