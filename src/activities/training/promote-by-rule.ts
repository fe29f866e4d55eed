import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { isLonghaulError } from '../../contracts/errors.ts'
import type { EvaluationRecord } from '../../contracts/evaluations.types.ts'
import { runKeys } from '../../contracts/keys.ts'
import type { NightOutcome } from '../../contracts/nights.types.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import type { PromotionRecipe, Recipe } from '../../contracts/recipe.types.ts'
import type { StageScore } from '../../contracts/workflows.types.ts'
import { judgeNight, type PromotionDecision } from '../../domain/statistics/judge-night.ts'
import { requireScores } from '../evaluation/report-data.ts'
import { readOrThrow } from '../runtime/stored-records.ts'
import { findNewestPromotion, promote } from './policies.ts'
import type { Promotion } from '../../contracts/training.types.ts'

interface PromoteInput {
  run: string
  policy: PolicyRef
  score: StageScore
}

/**
 * Promotes the last policy of a run if the recipe's rule allows it. Decided once and recorded with the reason. A repeated attempt, and
 * a run that is continued after another promotion, find the first decision.
 */
export async function promoteByRule(
  { store, recipe }: { store: ArtifactStore; recipe: Recipe },
  input: PromoteInput,
): Promise<{ number: number | null; why: string }> {
  await requireScores(store, input.run, [input.score])
  const key = runKeys.promotion(input.run)
  const stored = await store.readRecord<PromotionDecision>(key)
  const decision =
    stored?.policy === input.policy.version
      ? stored
      : (await store.claimRecord<PromotionDecision>(key, await decide({ store, recipe }, input))).record
  if (!decision.promoted) return { number: null, why: decision.why }
  return { ...(await promote(store, input)), why: decision.why }
}

async function decide(
  { store, recipe }: { store: ArtifactStore; recipe: Recipe },
  { run, policy, score }: PromoteInput,
): Promise<PromotionDecision> {
  // Runs begun by an earlier version promote as they did.
  const rule: PromotionRecipe | undefined = recipe.promotion
  const common = { schema: 'longhaul.promotion-decision/1', run, policy: policy.version } as const
  if (rule === undefined || rule.gate === 'always') {
    const why = 'promotion.gate: always'
    return { ...common, gate: 'always', promoted: true, against: null, judged: null, why }
  }
  const gated = { ...common, gate: rule.gate }
  const newest = await findNewestPromotion(store)
  const standard = newest === null ? { run, name: 'base' } : { run: newest.run, name: newest.score.name }
  const refuse = (why: string): PromotionDecision => ({
    ...gated,
    promoted: false,
    against: null,
    judged: null,
    why: `not promoted: ${why}`,
  })
  const before = await readStandard(store, standard)
  if (typeof before === 'string') return refuse(`${describe(standard, newest)} cannot be read (${before})`)
  const after = await readOrThrow<EvaluationRecord>(store, runKeys.evaluation(run, score.name))
  const judged = judgeNight(before, after, rule)
  const promoted = PROMOTED[judged.outcome]
  return {
    ...gated,
    promoted,
    against: { run: before.run, name: before.name, policy: before.score.policy },
    judged,
    why: `${promoted ? 'promoted' : 'not promoted'}: against ${describe(standard, newest)}, ${judged.statement}`,
  }
}

/** A possible regression is no reason to promote, and neither is a comparison without common tasks. */
const PROMOTED: Record<NightOutcome, boolean> = {
  improved: true,
  'not-worse': true,
  regressed: false,
  'cannot-exclude': false,
  'not-compared': false,
}

function describe({ run, name }: { run: string; name: string }, newest: Promotion | null): string {
  return newest === null
    ? `the run's own ${name}, because no policy has been promoted yet`
    : `the newest promotion ${newest.policy.version} (${name} of ${run})`
}

async function readStandard(
  store: ArtifactStore,
  { run, name }: { run: string; name: string },
): Promise<EvaluationRecord | string> {
  try {
    return await readOrThrow<EvaluationRecord>(store, runKeys.evaluation(run, name))
  } catch (error) {
    if (!isLonghaulError(error) || error.code === 'Artifact.Unavailable') throw error
    return `${error.code}: ${error.message}`
  }
}
