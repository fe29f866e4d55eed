import type { BuiltBatch } from '../../contracts/activities.types.ts'
import type { ArtifactRef, ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { ActionRecord, EpisodeRecord, EpisodeStart } from '../../contracts/episodes.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { purposeOf, stageOf } from '../../contracts/episode-purpose.ts'
import { episodeKeys, runKeys } from '../../contracts/keys.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import type { Recipe, UnauditedRewards } from '../../contracts/recipe.types.ts'
import {
  type EpisodeFate,
  type ScoredGroup,
  isValidEpisode,
  selectFatesForRft,
  selectForReinforce,
} from '../../domain/ledger/episode-fates.ts'
import { selectExperts } from '../../domain/rewards/experts.ts'
import { groupRuleOf } from '../../domain/rewards/group-selection.ts'
import { orderByHash, episodeMaterial } from '../../domain/hash-order.ts'
import { buildTrainingLedger, unpaidIn } from '../../domain/ledger/ledger.ts'
import { type JobPlan, planJobs, planOneJob, planPairs, splitByTokens } from '../../domain/rewards/minibatches.ts'
import { paymentOf, unauditedRewardsOf } from '../../domain/rewards/payment.ts'
import { rewardRuleOf } from '../../domain/rewards/rewards.ts'
import {
  type BatchAdvantage,
  type BatchGroup,
  type BatchRow,
  writeBatch,
} from '../../adapters/trainer-job/batch/batch-writer.ts'
import { readPolicyFacts } from '../../adapters/trainer-job/job/policy-facts.ts'
import { assembleTrajectory, type Trajectory } from '../../adapters/trainer-job/batch/trajectory.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { readOrThrow } from '../runtime/stored-records.ts'
import { readEpisodeRecords } from '../episode/episode-records.ts'
import { requireWholeStage } from '../run/require-whole-groups.ts'
import { rewardTurns, type TurnRewards } from './turn-rewards.ts'

/** Where the episodes of fine-tuning are, within a run. */
const FINE_TUNING = { stage: stageOf({ kind: 'rft' }), iteration: 0 } as const

export interface BuildBatchInput {
  run: string
  stage: string
  iteration: number
  policy: PolicyRef
  suite: string
}

/** The rules' decision about every episode of an iteration, before anything is written. */
export interface Selection {
  fates: EpisodeFate[]
  groups: ScoredGroup[]
}

/** Applies the recipe's rules to records alone, so that `ledger verify` can derive the same again. */
export function selectEpisodes(recipe: Recipe, stage: string, records: readonly EpisodeRecord[]): Selection {
  if (isFineTuning(stage)) {
    const fates = selectFatesForRft({
      records,
      maxPerTask: recipe.rft?.maxPerTask ?? null,
      unaudited: unauditedRewardsOf(recipe),
    })
    return { fates, groups: rftGroups(records, unauditedRewardsOf(recipe)) }
  }
  const rules = reinforceRules(recipe, stage)
  return selectForReinforce({ records, reward: rules.reward, group: rules.group })
}

/** Writes rewards, advantages, selection, batch files and the iteration's ledger, in this order, so that the ledger only refers to
 *  existing files. */
export async function buildBatch(
  { store, recipe }: { store: ArtifactStore; recipe: Recipe },
  input: BuildBatchInput,
): Promise<BuiltBatch> {
  const { run, stage, iteration } = input
  const coordinates = { run, stage, iteration }
  const records = await readEpisodeRecords(store, coordinates)
  const selected = selectEpisodes(recipe, stage, records)
  const { rows: placed, fates } = await assembleRows(store, recipe, input, records, selected)
  const turns = await turnRewardsOf(store, recipe, input, { records, groups: selected.groups })
  const played = turns === null ? placed : placed.map((row) => ({ ...row, turnAdvantages: turns.advantagesOf(row) }))
  const experts = isFineTuning(stage) ? [] : await expertRows(store, recipe, input, selected.groups)
  const rows = inBatchOrder(recipe, [...played, ...experts])
  const groups = selected.groups.map((group) => toBatchGroup(group, turns?.rewardsOf(group)))
  const plan = planOf(recipe, input, rows)
  const batches = await writeBatches(store, recipe, input, rows, groups, plan)
  const batchOf = new Map(
    batches.flatMap(({ ref, episodes }) => episodes.map((episode) => [episode, ref.key] as const)),
  )
  const settled = fates.map((fate) => overStepLimit(fate, batchOf))
  await store.putRecord(
    runKeys.ledger(run, stage, iteration),
    buildTrainingLedger({ ...coordinates, fates: settled, batchOf, unpaid: unpaidIn(records, recipe) }),
  )
  const refs = batches.map(({ ref }) => ref)
  return summarize({ records, groups: selected.groups, batches: refs, trajectories: batchOf.size })
}

/** Returns null if turns have no rewards of their own. */
async function turnRewardsOf(
  store: ArtifactStore,
  { reinforce }: Recipe,
  { stage }: BuildBatchInput,
  played: { records: readonly EpisodeRecord[]; groups: readonly ScoredGroup[] },
): Promise<TurnRewards | null> {
  if (isFineTuning(stage) || reinforce?.stepRewards === undefined) return null
  const { advantage, stepRewards } = reinforce
  return rewardTurns(store, { reinforce: { advantage, stepRewards }, ...played })
}

interface PlacedRow extends BatchRow {
  record: EpisodeRecord
  /** The chosen episode of its pair, if rows come in pairs. */
  pair?: string
}

async function assembleRows(
  store: ArtifactStore,
  recipe: Recipe,
  input: BuildBatchInput,
  records: readonly EpisodeRecord[],
  { fates, groups }: Selection,
): Promise<{ rows: PlacedRow[]; fates: EpisodeFate[] }> {
  const byId = new Map(records.map((record) => [record.episode, record]))
  const positions = new Map(
    groups.flatMap(({ taskId, members }) =>
      members.map(({ episode }, member) => [episode, { group: taskId, member }] as const),
    ),
  )
  const asTrained = {
    trainFormatErrors: formatErrorMask(recipe, input.stage) === 1,
    // Only collecting for fine-tuning shows a demonstration. Kept in training it is context and never part of the loss.
    keepDemonstration: isFineTuning(input.stage) && rftRules(recipe).trainWithDemonstration,
  }
  const rows: PlacedRow[] = []
  const settled: EpisodeFate[] = []
  for (const fate of fates) {
    const record = byId.get(fate.episode)
    const where = positions.get(fate.episode)
    if (fate.kind !== 'train' || record === undefined || where === undefined) {
      settled.push(fate)
      continue
    }
    const trajectory = await readTrajectory(store, record, asTrained)
    if (trajectory.lossTokens === 0) {
      settled.push({ kind: 'dropped', episode: fate.episode, reason: 'no-loss-token' })
      continue
    }
    const { advantage, pair } = fate
    rows.push({ trajectory, record, ...where, advantage, ...(pair === undefined ? {} : { pair }) })
    settled.push(fate)
  }
  return dropHalfPairs({ rows, fates: settled })
}

/** A trajectory whose partner has no token to train on forms no pair. */
function dropHalfPairs({ rows, fates }: { rows: PlacedRow[]; fates: EpisodeFate[] }): {
  rows: PlacedRow[]
  fates: EpisodeFate[]
} {
  const isHalf = (pair: string | undefined): boolean =>
    pair !== undefined && rows.filter((row) => row.pair === pair).length < 2
  return {
    rows: rows.filter(({ pair }) => !isHalf(pair)),
    fates: fates.map((fate) =>
      fate.kind === 'train' && isHalf(fate.pair)
        ? { kind: 'dropped', episode: fate.episode, reason: 'unpaired' }
        : fate,
    ),
  }
}

/** Separates siblings, in the same way in every repetition. A pair stays together, the chosen trajectory first. */
function inBatchOrder(recipe: Recipe, rows: readonly PlacedRow[]): PlacedRow[] {
  const material = ({ record }: PlacedRow): string => episodeMaterial({ ...record, recipeSeed: recipe.seed })
  const leading = rows.filter(({ pair, record }) => pair === undefined || pair === record.episode)
  return orderByHash({ items: leading, material, hash: sha256Hex }).flatMap((row) =>
    row.pair === undefined ? [row] : [row, ...rows.filter((other) => other !== row && other.pair === row.pair)],
  )
}

/** Adds to each group that rarely succeeds one episode that fine-tuning kept, with the stage's prompt. A task without an episode
 *  that fits into the stage's context gets none. */
async function expertRows(
  store: ArtifactStore,
  recipe: Recipe,
  { run, stage }: BuildBatchInput,
  groups: readonly ScoredGroup[],
): Promise<PlacedRow[]> {
  const rule = recipe.reinforce?.experts
  if (rule === undefined) return []
  await requireWholeStage({ store, recipe }, { run, stage: FINE_TUNING.stage })
  const records = await readEpisodeRecords(store, { run, ...FINE_TUNING })
  const byId = new Map(records.map((record) => [record.episode, record]))
  const fineTuned = selectEpisodes(recipe, FINE_TUNING.stage, records).fates.flatMap((fate) => {
    const taskId = byId.get(fate.episode)?.taskId
    return taskId === undefined ? [] : [{ taskId, fate }]
  })
  const asTrained = { trainFormatErrors: rftRules(recipe).mask.formatErrorTurns === 1, keepDemonstration: false }
  const rows: PlacedRow[] = []
  for (const { taskId, episodes } of selectExperts({ groups, fineTuned, rule })) {
    for (const episode of episodes) {
      const record = byId.get(episode)
      const trajectory = record === undefined ? null : await readTrajectory(store, record, asTrained)
      if (record === undefined || trajectory === null || trajectory.lossTokens === 0) continue
      if (trajectory.ids.length > contextOf(recipe, stage)) continue
      rows.push({ trajectory, record, group: taskId, member: null, advantage: null, expertWeight: rule.weight })
      break
    }
  }
  return rows
}

async function readTrajectory(
  store: ArtifactStore,
  record: EpisodeRecord,
  { trainFormatErrors, keepDemonstration }: { trainFormatErrors: boolean; keepDemonstration: boolean },
): Promise<Trajectory> {
  const { episode } = record
  const start = await readOrThrow<EpisodeStart>(store, episodeKeys.start(episode))
  const actions: ActionRecord[] = []
  for (let turn = 0; turn < record.turns; turn++) {
    actions.push(await readOrThrow<ActionRecord>(store, episodeKeys.action(episode, turn)))
  }
  refuseChat(episode, actions)
  const firstPrompt = keepDemonstration ? null : start.trainingPromptIds
  return assembleTrajectory({ record, actions, trainFormatErrors, ...(firstPrompt === null ? {} : { firstPrompt }) })
}

/** If the server returned no token ids, the batch is refused, because text is never re-tokenised. */
function refuseChat(episode: string, actions: readonly ActionRecord[]): void {
  if (actions.every(({ chat }) => chat === undefined)) return
  throw new LonghaulError({
    code: 'Model.NoTokenIds',
    message:
      'Expected episodes with token ids in a batch, but this one was played by a chat endpoint: it can be graded, never trained on',
    details: { episode },
  })
}

async function writeBatches(
  store: ArtifactStore,
  recipe: Recipe,
  input: BuildBatchInput,
  rows: readonly PlacedRow[],
  groups: readonly BatchGroup[],
  plan: JobPlan,
): Promise<{ ref: ArtifactRef; episodes: string[] }[]> {
  const { run, stage, iteration, policy } = input
  const facts = await readPolicyFacts(policy, store.weights)
  const written: { ref: ArtifactRef; episodes: string[] }[] = []
  let from = 0
  for (const [slice, { minibatches }] of plan.jobs.entries()) {
    const size = minibatches.reduce((sum, count) => sum + count, 0)
    const part = rows.slice(from, from + size)
    from += size
    const ref = await writeBatch({
      store,
      directory: runKeys.batch(run, stage, iteration, slice),
      kind: isFineTuning(stage) ? 'rft' : 'dapo',
      run,
      iteration,
      rows: part,
      minibatches,
      groups,
      policies: [{ version: policy.version, manifestSha256: policy.manifestSha256 }],
      totalSteps: plan.totalSteps,
      ...facts,
      maxRowTokens: contextOf(recipe, stage),
      sampling: recipe.rollout.sampling,
      advantage: isFineTuning(stage) ? null : advantageOf(recipe),
    })
    // The ledger of fine-tuning accounts for an expert, which is not an episode of this iteration.
    const episodes = part.flatMap(({ record, expertWeight }) => (expertWeight === undefined ? [record.episode] : []))
    written.push({ ref, episodes })
  }
  return written
}

/** Number of optimizer steps. The learning-rate schedule of a fine-tuning epoch counts the steps of all its jobs. */
function planOf(recipe: Recipe, { stage }: BuildBatchInput, rows: readonly PlacedRow[]): JobPlan {
  const trajectories = rows.length
  if (isFineTuning(stage)) {
    const { batch, epochs, stepsPerJob, maxSteps } = rftRules(recipe)
    return planJobs({ trajectories, batch, epochs, stepsPerJob, maxSteps })
  }
  const { epochs, batch } = reinforceRules(recipe, stage)
  if (typeof batch !== 'number') {
    const lossTokens = rows.map(({ trajectory }) => trajectory.lossTokens)
    return planOneJob({ minibatches: splitByTokens({ lossTokens, budget: batch.tokens }), epochs })
  }
  const plan = recipe.reinforce?.loss.algorithm === 'dpo' ? planPairs : planJobs
  return plan({ trajectories, batch, epochs, stepsPerJob: null, maxSteps: null })
}

function overStepLimit(fate: EpisodeFate, batchOf: ReadonlyMap<string, string>): EpisodeFate {
  if (fate.kind !== 'train' || batchOf.has(fate.episode)) return fate
  return { kind: 'dropped', episode: fate.episode, reason: 'over-step-limit' }
}

function summarize(result: {
  records: readonly EpisodeRecord[]
  groups: readonly ScoredGroup[]
  batches: ArtifactRef[]
  trajectories: number
}): BuiltBatch {
  const { records, groups, batches, trajectories } = result
  const valid = records.filter(isValidEpisode)
  const rewards = groups.flatMap(({ members }) => members.map(({ reward }) => reward))
  const count = Math.max(1, valid.length)
  return {
    batches,
    trajectories,
    groups: groups.length,
    groupsKept: groups.filter(({ dropped }) => dropped === null).length,
    episodes: records.length,
    infra: records.length - valid.length,
    meanReward: rewards.reduce((sum, reward) => sum + reward, 0) / Math.max(1, rewards.length),
    resolvedRate: valid.filter(({ verdict }) => verdict === 'resolved').length / count,
    meanTurns: valid.reduce((sum, { turns }) => sum + turns, 0) / count,
  }
}

function toBatchGroup(
  { taskId, members, infra, dropped }: ScoredGroup,
  stepRewards: number[][] | undefined,
): BatchGroup {
  return {
    ...(stepRewards === undefined ? {} : { stepRewards }),
    id: taskId,
    taskId,
    rewards: members.map(({ reward }) => reward),
    outcomes: members.map(({ outcome }) => outcome),
    infra,
    dropped,
  }
}

/** Fine-tuning has no groups of its own. The manifest still lists siblings for completeness. */
function rftGroups(records: readonly EpisodeRecord[], unaudited: UnauditedRewards): ScoredGroup[] {
  const taskIds = [...new Set(records.map(({ taskId }) => taskId))].sort()
  return taskIds.map((taskId) => {
    const siblings = records.filter((record) => record.taskId === taskId).sort((a, b) => a.index - b.index)
    const valid = siblings.filter(isValidEpisode)
    return {
      taskId,
      members: valid.map((record) => {
        const outcome = paymentOf(record, unaudited) === 'paid' ? 1 : 0
        return { episode: record.episode, outcome, reward: outcome }
      }),
      infra: siblings.length - valid.length,
      dropped: null,
      std: 0,
    }
  })
}

function isFineTuning(stage: string): boolean {
  return purposeOf(stage).kind === 'rft'
}

function formatErrorMask(recipe: Recipe, stage: string): 0 | 1 {
  return isFineTuning(stage) ? rftRules(recipe).mask.formatErrorTurns : (recipe.reinforce?.mask.formatErrorTurns ?? 1)
}

function contextOf(recipe: Recipe, stage: string): number {
  return isFineTuning(stage) ? rftRules(recipe).context : reinforceRules(recipe, stage).context
}

function advantageOf({ reinforce }: Recipe): BatchAdvantage | null {
  if (reinforce === null) return null
  const { delta, scale } = reinforce.advantage
  const { stepRewards, filter, loss } = reinforce
  return {
    delta,
    scale,
    filter: filter.on,
    ...(stepRewards === undefined ? {} : { stepWeight: stepRewards.weight }),
    ...(loss.algorithm === 'dpo' ? { pairs: true } : {}),
  }
}

function rftRules({ rft }: Recipe) {
  if (rft !== null) return rft
  throw new LonghaulError({ code: 'Config.Invalid', message: 'The recipe has no rft section' })
}

function reinforceRules(recipe: Recipe, stage: string) {
  const { reinforce } = recipe
  const found = reinforce?.stages.find(({ name }) => name === stage)
  if (reinforce === null || found === undefined) {
    throw new LonghaulError({ code: 'Config.Invalid', message: 'The recipe has no such stage', details: { stage } })
  }
  return {
    reward: rewardRuleOf(reinforce, found, unauditedRewardsOf(recipe)),
    group: groupRuleOf(reinforce),
    batch: found.batch,
    context: found.context,
    epochs: reinforce.epochsPerIteration,
  }
}
