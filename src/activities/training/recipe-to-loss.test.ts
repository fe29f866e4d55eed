/** From the words of a recipe to the loss of a real trainer's first step, with every number worked out by hand. */
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { makeEpisode } from '../../../test/support/training-records.ts'
import { runPython, withoutPython } from '../../../test/support/python.ts'
import { makeJobStore } from '../../../test/support/training-jobs.ts'
import { createWarmTrainer, type WarmTrainer } from '../../../test/support/warm-trainer.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { ActionRecord, EpisodeRecord } from '../../contracts/episodes.types.ts'
import { episodeKeys, runKeys } from '../../contracts/keys.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import { loadRecipe } from '../../adapters/recipes/load-recipe.ts'
import { prepareJob } from '../../adapters/trainer-job/job/job-spec.ts'
import { runJob } from '../../adapters/trainer-job/job/run-job.ts'
import { buildBatch } from './build-batch.ts'
import { referencePolicy } from './policies.ts'
import { putPart } from '../../../test/support/record-examples.ts'

const SCORE =
  'import sys, json, pathlib; from job_files import score_rows;' +
  'print(json.dumps(score_rows(pathlib.Path(sys.argv[1]), json.loads(sys.argv[2]))))'

/**
 * One group of four. Stage dapo-1 of `mini`: context 640, turns 4 to 6 cost up to 0.5. `drift` is log p of the trainer minus log p
 * that the sampler told, the same at every token, so that the geometric mean of a row's ratio is e^drift.
 *
 *                      turns   context   reward with contextPenalty {start: 0.5}          geometric mean
 */
const EPISODES = [
  { resolved: true, turns: 2, context: 320, drift: 0 }, //        1                              1.000  inside
  { resolved: true, turns: 2, context: 480, drift: 0.02 }, //     1 − 0.5 = 0.5                  1.020  outside
  { resolved: false, turns: 5, context: 100, drift: -0.005 }, //  0 − 0.25 = −0.25               0.995  inside
  { resolved: false, turns: 2, context: 640, drift: -0.02 }, //   0 − 1 = −1                     0.980  outside
] as const
/** Turns as `episode/turn`. */
interface TurnEvents {
  formatErrors?: string[]
  timeouts?: string[]
}

/** Three tokens a turn. */
const TOKENS = 33

describe('from recipe to loss', { skip: withoutPython }, () => {
  const signal = AbortSignal.timeout(2_000_000)
  let root = ''
  let store: ArtifactStore
  let base: PolicyRef
  let scores: number[][]
  let trainer: WarmTrainer

  before(async () => {
    trainer = createWarmTrainer()
    root = await mkdtemp(join(tmpdir(), 'recipe-to-loss-'))
    ;({ store, base } = await makeJobStore(root))
    const rows = EPISODES.map((_, index) => episodeAt('scored', index).actions.flatMap(tokensOf))
    scores = JSON.parse(await runPython(SCORE, fileURLToPath(base.uri), JSON.stringify(rows))) as number[][]
  })
  after(async () => {
    await trainer.close()
    await rm(root, { recursive: true, force: true })
  })

  test('drops the standard deviation, masks geometrically and prices context', async () => {
    // Mean 0.25 / 4 = 0.0625. Advantages 0.9375, 0.4375, −0.3125, −1.0625; the second and the fourth are masked and stay in N.
    // −(6 · 0.9375 − 15 · 0.3125) / 33 = −0.9375 / 33.
    const { loss, masked } = await firstStep('all', {
      advantage: { scale: 'none' },
      loss: { sequenceMask: {} },
      reward: { contextPenalty: { start: 0.5 } },
    })
    close(loss, -0.9375 / TOKENS)
    close(masked, 12 / TOKENS)
  })

  test('applies each option by itself', async () => {
    // Deviation: squares 0.87890625 + 0.19140625 + 0.09765625 + 1.12890625 = 2.296875; / 3 = 0.765625; root 0.875.
    // −(6 · (0.9375 + 0.4375 − 1.0625) − 15 · 0.3125) / 0.875 / 33 = −(1.875 − 4.6875) / 0.875 / 33.
    const priced = await firstStep('priced', { reward: { contextPenalty: { start: 0.5, min: -1 } } })
    close(priced.loss, 2.8125 / 0.875 / TOKENS)
    close(priced.masked, 0)
    // Rewards 1, 1, −0.25, 0; mean 0.4375; advantages 0.5625, 0.5625, −0.6875, −0.4375.
    // −(6 · (0.5625 + 0.5625 − 0.4375) − 15 · 0.6875) / 33 = −(4.125 − 10.3125) / 33.
    const unscaled = await firstStep('unscaled', { advantage: { scale: 'none' } })
    close(unscaled.loss, 6.1875 / TOKENS)
    // The same advantages, with bounds of the recipe's own that leave out the second and the fourth.
    const wide = { low: 0.985, high: 1.015 }
    const both = { advantage: { scale: 'none' }, loss: { sequenceMask: wide } }
    // −(6 · 0.5625 − 15 · 0.6875) / 33 = −(3.375 − 10.3125) / 33.
    close((await firstStep('wide', both)).loss, 6.9375 / TOKENS)
  })

  test('maps algorithms by name', async () => {
    // Advantages 0.5625, 0.5625, −0.6875, −0.4375; the mask takes the second and the fourth. The ratio is 1, so the mean of a
    // trajectory's tokens is its advantage: −(0.5625 − 0.6875) / 4, by GSPO's one ratio too.
    const advantage = { scale: 'none' }
    const sequenceMask = { low: 0.985, high: 1.015 }
    const grpo = await firstStep('grpo', { advantage, loss: { algorithm: 'grpo', sequenceMask } })
    close(grpo.loss, 0.125 / 4)
    const gspo = await firstStep('gspo', { advantage, loss: { algorithm: 'gspo', sequenceMask } })
    close(gspo.loss, 0.125 / 4)
    // Divided by 4 trajectories · 640 tokens of context: −(6 · 0.5625 − 15 · 0.6875) / 2560.
    const drGrpo = await firstStep('dr-grpo', { advantage, loss: { algorithm: 'drGrpo', sequenceMask } })
    close(drGrpo.loss, 6.9375 / 2560)
  })

  test('filters overlong episodes, pulls towards the base and adds an entropy bonus', async () => {
    await putPart(store, runKeys.policy('filtered', 'base'), base)
    const step = await firstStep('filtered', {
      advantage: { scale: 'none' },
      overlong: 'filter',
      loss: { kl: { coefficient: 3, reference: 'base' }, entropy: 0.5 },
    })
    // The third ended at its turn limit: it is out of N and still in the mean. The policy is the reference yet, so its pull is 0.
    // −6 · (0.5625 + 0.5625 − 0.4375) / 18 − 0.5 · entropy.
    assert.ok(typeof step.entropy === 'number' && step.entropy > 1)
    close(step.loss, -4.125 / 18 - 0.5 * step.entropy)
    close(step.distance, 0)
    assert.equal(step.tokens, 18)
  })

  test('gives turns their own rewards', async () => {
    // Beside the advantages 0.5625, 0.5625, −0.6875, −0.4375, which add up to 0. What turns and all later ones earn:
    //   first turn   −0.4    0     −0.6   0      mean −0.25
    //   second turn  −0.4    0     −0.2   0      mean −0.15; behind it the third is alone: 0
    // Means of trajectories: (−0.15 − 0.25) / 2, (0.25 + 0.15) / 2, (−0.35 − 0.05) / 5, (0.25 + 0.15) / 2: 0.12 together, half of it counts.
    const turns = await firstStep(
      'turns',
      {
        advantage: { scale: 'none' },
        stepRewards: { weight: 0.5, formatError: -0.4, stoppedCommand: -0.2 },
        loss: { algorithm: 'grpo' },
      },
      { formatErrors: ['0/1', '2/0'], timeouts: ['2/4'] },
    )
    close(turns.loss, -0.06 / 4)
  })

  test('adds an expert of fine-tuning to a group with too few successes', async () => {
    await storeExpert('experts')
    // Two of four succeed. The expert says what the first episode says: six tokens, each with the weight and no ratio.
    const sampled = [4, 5, 6, 9, 10, 11].map((at) => scores[0]?.[at] ?? Number.NaN)
    const imitated = sampled.reduce((sum, score) => sum + score, 0)
    const advantage = { scale: 'none' }
    const step = await firstStep('experts', { advantage, experts: { weight: 0.5, below: 3 } })
    assert.equal(step.tokens, TOKENS + 6)
    close(step.loss, (6.1875 - 0.5 * imitated) / (TOKENS + 6))
    // The expert’s sampler is no sampler of this batch: the largest gap is that of the drifts.
    close(step.gap, 0.02)

    await storeExpert('few')
    const few = await firstStep('few', { advantage, experts: { weight: 0.5, below: 2 } })
    assert.equal(few.tokens, TOKENS)
    close(few.loss, 6.1875 / TOKENS)
  })

  test('compares a success with a failure in each pair', async () => {
    await putPart(store, runKeys.policy('pairs', 'base'), base)
    const text = await readFile(new URL('../../../recipes/mini.yaml', import.meta.url), 'utf8')
    const { recipe } = await loadRecipe({ name: 'mini', text, dirs: [] })
    const stages = recipe.reinforce?.stages.map((stage) => {
      const { clip: _, ...unclipped } = stage
      return { ...unclipped, batch: 2 }
    })
    const loss = { algorithm: 'dpo', kl: { coefficient: 0.2, reference: 'base' } }
    const step = await firstStep('pairs', { stages, loss, filter: { on: 'outcome' } })
    // One pair a step, and the policy is its own reference yet: −log σ(0).
    close(step.loss, Math.LN2)
    assert.equal(step.steps, 2)
    // Rewards 1, 1, −0.25, 0: the first, of six tokens, meets the worst, of fifteen; the second meets the other.
    assert.ok([6 + 15, 6 + 6].includes(step.tokens as number), String(step.tokens))
  })

  test('makes steps of a constant number of tokens', async () => {
    const text = await readFile(new URL('../../../recipes/mini.yaml', import.meta.url), 'utf8')
    const { recipe } = await loadRecipe({ name: 'mini', text, dirs: [] })
    const stages = recipe.reinforce?.stages.map((stage) => ({ ...stage, batch: { tokens: 14 } }))
    // Of 6, 6, 15 and 6 tokens in any order: the 15 alone, at most two of the others in a step. The trainer refuses another cut.
    const step = await firstStep('budget', { stages, loss: { normalizer: 'tokenBudget' } })
    assert.ok([6, 12, 15].includes(step.tokens as number), String(step.tokens))
    assert.equal(step.steps, 3)
  })

  function close(found: unknown, expected: number): void {
    assert.ok(
      typeof found === 'number' && Math.abs(found - expected) < 1e-5,
      `expected ${expected}, found ${String(found)}`,
    )
  }

  function tokensOf({ promptDelta, ids }: ActionRecord): number[] {
    return [...promptDelta, ...ids]
  }

  function episodeAt(run: string, index: number): { record: EpisodeRecord; actions: ActionRecord[] } {
    const { resolved, turns, context } = EPISODES[index] as (typeof EPISODES)[number]
    return makeEpisode({
      run,
      stage: 'dapo-1',
      iteration: 1,
      index,
      turns,
      policy: base.version,
      verdict: resolved ? 'resolved' : 'unresolved',
      ...(resolved ? { audit: { outcome: 'agrees', reasons: [], detail: null } } : {}),
      contextTokens: context,
      ...(index === 2 ? ({ disposition: 'turn-limit' } as const) : {}),
    })
  }

  /** Through the pipeline's own steps: recipe, records, batch, job, trainer. */
  async function firstStep(
    run: string,
    reinforce: Record<string, unknown>,
    turns: TurnEvents = {},
  ): Promise<Record<'loss' | 'masked' | 'entropy' | 'distance' | 'tokens' | 'gap', unknown> & { steps: number }> {
    const text = await readFile(new URL('../../../recipes/mini.yaml', import.meta.url), 'utf8')
    // Of a loaded machine: imports alone may take longer than the recipe lets a job say nothing.
    const limits = { stallS: 480, timeoutS: 480 }
    const { recipe } = await loadRecipe({ name: 'mini', text, overrides: { reinforce, trainer: limits }, dirs: [] })
    for (const index of EPISODES.keys()) await storeEpisode(run, index, turns)
    const built = await buildBatch({ store, recipe }, { run, stage: 'dapo-1', iteration: 1, policy: base, suite: 's' })
    assert.equal(built.trajectories, EPISODES.length - (reinforce['overlong'] === 'filter' ? 1 : 0))
    const [batch] = built.batches
    assert.ok(batch !== undefined)
    const place = { run, stage: 'dapo-1', kind: 'dapo', iteration: 1, slice: 0 } as const
    const reference = await referencePolicy({ store, recipe }, place)
    const job = await prepareJob({ store, recipe, job: { ...place, batch, policy: base }, threads: 1, reference })
    const { metrics } = await runJob({ job, launcher: trainer.launcher, attempt: 1, signal })
    const [first = {}] = metrics
    return {
      loss: first['loss'],
      masked: first['masked_frac'],
      entropy: first['entropy'],
      distance: first['kl_reference'],
      tokens: first['n_tokens'],
      gap: first['abs_dlogp_max'],
      steps: metrics.length,
    }
  }

  /** A success that fine-tuning kept, sampled by another policy. */
  async function storeExpert(run: string): Promise<void> {
    const { record, actions } = makeEpisode({
      run,
      stage: 'rft',
      iteration: 0,
      index: 0,
      turns: 2,
      policy: 'v000000-00000000',
      verdict: 'resolved',
      audit: { outcome: 'agrees', reasons: [], detail: null },
    })
    const { episode } = record
    await putPart(store, episodeKeys.result(episode), record)
    const start = { schema: 'longhaul.episode-start/1', episode, trainingPromptIds: null }
    await putPart(store, episodeKeys.start(episode), start)
    for (const action of actions) await putPart(store, episodeKeys.action(episode, action.turn), action)
  }

  async function storeEpisode(
    run: string,
    index: number,
    { formatErrors = [], timeouts = [] }: TurnEvents,
  ): Promise<void> {
    const { record, actions } = episodeAt(run, index)
    const { episode } = record
    const told = scores[index]?.map((score) => score - (EPISODES[index]?.drift ?? 0)) ?? []
    await putPart(store, episodeKeys.result(episode), record)
    const start = { schema: 'longhaul.episode-start/1', episode, trainingPromptIds: null }
    await putPart(store, episodeKeys.start(episode), start)
    let at = 0
    for (const action of actions) {
      at += action.promptDelta.length
      const logprobs = told.slice(at, at + action.ids.length)
      at += action.ids.length
      const turn = `${index}/${action.turn}`
      const formatError = formatErrors.includes(turn) ? 'cannot_extract_command' : null
      await putPart(store, episodeKeys.action(episode, action.turn), { ...action, logprobs, formatError })
      const execution = { exitCode: null, reason: timeouts.includes(turn) ? 'timeout' : 'exit' }
      const observation = { schema: 'longhaul.observation/1', episode, turn: action.turn, text: '', execution }
      await putPart(store, episodeKeys.observation(episode, action.turn), observation)
    }
  }
})
