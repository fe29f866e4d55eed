import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { useOwnStore } from '../../../test/support/command-line.ts'
import { type Attempt, makeEvaluation } from '../../../test/support/evaluation-records.ts'
import { policyRef } from '../../../test/support/scripted-pipeline.ts'
import { makeTrainingRecipe } from '../../../test/support/training-records.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { policyKeys, runKeys } from '../../contracts/keys.ts'
import type { EvaluationRecord } from '../../contracts/evaluations.types.ts'
import type { PromotionRecipe, Recipe } from '../../contracts/recipe.types.ts'
import { readOrThrow } from '../runtime/stored-records.ts'
import { findNewestPromotion } from './policies.ts'
import { promoteByRule } from './promote-by-rule.ts'
import type { PromotionDecision } from '../../domain/statistics/judge-night.ts'

let store: ArtifactStore
let close: () => Promise<void>

before(async () => {
  ;({ store, close } = await useOwnStore())
})

after(() => close())

const GATE: PromotionRecipe = { gate: 'notWorse', margin: 0.02, confidence: 0.95, minGraded: 0.95 }

function recipeWith(promotion: PromotionRecipe | undefined): Recipe {
  return { ...makeTrainingRecipe(), promotion } as unknown as Recipe
}

async function evaluated(run: string, name: string, step: number, resolved: number): Promise<void> {
  const tasks = Array.from({ length: 40 }, (_, index) => ({
    taskId: `t${index}`,
    repo: `r${index % 10}`,
    attempts: [index < resolved ? 1 : 0, index < resolved ? 1 : 0] as Attempt[],
  }))
  const evaluation = makeEvaluation({ run, name, policy: policyRef(step).version, tasks })
  await store.putRecord(runKeys.evaluation(run, name), evaluation)
}

async function promote(run: string, step: number, promotion: PromotionRecipe | undefined = GATE) {
  const { score } = await readOrThrow<EvaluationRecord>(store, runKeys.evaluation(run, 'rl'))
  return promoteByRule({ store, recipe: recipeWith(promotion) }, { run, policy: policyRef(step), score })
}

test('the first policy is compared with the base of its run, later ones with the newest promotion', async () => {
  await evaluated('first', 'base', 0, 20)
  await evaluated('first', 'rl', 1, 40)
  const first = await promote('first', 1)
  assert.equal(first.number, 1)
  assert.match(first.why, /^promoted: against the run's own base, because no policy has been promoted yet, improved:/)

  await evaluated('second', 'base', 0, 20)
  await evaluated('second', 'rl', 2, 30)
  const second = await promote('second', 2)
  assert.equal(second.number, null)
  assert.match(second.why, /^not promoted: against the newest promotion v000001-0123abcd \(rl of first\), regressed:/)
  assert.equal((await findNewestPromotion(store))?.run, 'first')
  const decision = await store.readRecord<PromotionDecision>(runKeys.promotion('second'))
  assert.deepEqual(
    [decision?.promoted, decision?.against?.run, decision?.judged?.outcome],
    [false, 'first', 'regressed'],
  )
})

test('a possible regression prevents promotion, and a wider margin permits it', async () => {
  await evaluated('third', 'rl', 3, 39)
  assert.match((await promote('third', 3)).why, /not promoted: .*cannot exclude a regression of more than 0\.02/)
  await evaluated('fourth', 'rl', 4, 39)
  assert.equal((await promote('fourth', 4, { ...GATE, margin: 0.3 })).number, 2)
})

test('a promotion decision is final, also after another promotion', async () => {
  const before = await promote('third', 3)
  assert.deepEqual(await promote('third', 3), before)
  assert.equal((await promote('first', 1)).number, 1)
  assert.equal((await store.list(policyKeys.promotions)).length, 2)
})

test('nothing is promoted when the evaluation of the newest promotion is gone, and the reason names it', async () => {
  await store.putRecord(policyKeys.promotion(3), {
    schema: 'longhaul.promotion/1',
    number: 3,
    run: 'gone',
    policy: policyRef(9),
    score: { name: 'rl', policy: policyRef(9).version, passAt1: 1, sem: 0, tasks: 1, attempts: 1 },
  })
  await evaluated('fifth', 'rl', 5, 40)
  const { number, why } = await promote('fifth', 5)
  assert.equal(number, null)
  assert.match(why, /not promoted: the newest promotion v000009-0123abcd \(rl of gone\) cannot be read \(Artifact\./)
})

test('the last policy is promoted without a rule, and in runs from before there were rules', async () => {
  await evaluated('sixth', 'rl', 6, 10)
  assert.equal((await promote('sixth', 6, { ...GATE, gate: 'always' })).number, 4)
  const { promotion: _, ...unruled } = makeTrainingRecipe()
  await evaluated('seventh', 'rl', 7, 10)
  const { score } = await readOrThrow<EvaluationRecord>(store, runKeys.evaluation('seventh', 'rl'))
  const input = { run: 'seventh', policy: policyRef(7), score }
  assert.equal((await promoteByRule({ store, recipe: unruled as Recipe }, input)).number, 5)
})

/** The story: somebody completes `summarizeEvaluation` by hand with a score of their own, and it becomes a promotion. */
test('a score that is not that of its evaluation is not promoted, and neither is one without an evaluation', async () => {
  await evaluated('invented', 'rl', 8, 10)
  const { score } = await readOrThrow<EvaluationRecord>(store, runKeys.evaluation('invented', 'rl'))
  const before = await store.list(policyKeys.promotions)
  const ask = (held: Partial<typeof score>) =>
    promoteByRule(
      { store, recipe: recipeWith({ ...GATE, gate: 'always' }) },
      { run: 'invented', policy: policyRef(8), score: { ...score, ...held } },
    )
  for (const held of [{ passAt1: 0.99 }, { sem: 0.9 }, { policy: policyRef(7).version }, { tasks: 500 }]) {
    await assert.rejects(ask(held), {
      code: 'Run.EndedByHand',
      message: /^Expected the score of rl to be that of its record/,
    })
  }
  await assert.rejects(ask({ name: 'base' }), { code: 'Artifact.Missing' })
  assert.deepEqual(await store.list(policyKeys.promotions), before)
  assert.equal(await store.readRecord(runKeys.promotion('invented')), null)
})
