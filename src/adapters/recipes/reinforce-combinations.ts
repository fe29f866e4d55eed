import { LOSS_SHAPES } from '../../contracts/recipe-reinforce.schema.ts'
import type { ReinforceRecipe } from '../../contracts/recipe.types.ts'
import { isRunFolder } from '../../contracts/keys.ts'
import { isReservedStage } from '../../domain/statistics/evaluation-limits.ts'
import { contextRoom, problem, type Settings, suiteSize } from './combination.ts'
import type { KeyPath, RecipeProblem } from './explain-issues.ts'

/** The default of the recipe's schema. */
const DEFAULT_DELTA = 1e-6

const at = (...rest: KeyPath): KeyPath => ['reinforce', ...rest]

export function reinforcement(recipe: Settings): RecipeProblem[] {
  const { reinforce, policyServer, trainer } = recipe
  if (reinforce === null) return []
  const problems: RecipeProblem[] = []
  if (reinforce.minGroupSize > reinforce.groupSize) {
    problems.push(
      problem(
        at('minGroupSize'),
        `expected at most groupSize ${reinforce.groupSize}, got ${reinforce.minGroupSize}`,
        'no group could ever be large enough',
      ),
    )
  }
  if (reinforce.oldLogprobs === 'sampler' && reinforce.loss.behaviourCorrection !== 'none') {
    problems.push(
      problem(
        at('loss', 'behaviourCorrection'),
        `expected none with oldLogprobs: sampler, got "${reinforce.loss.behaviourCorrection}"`,
        'a correction compares trainer with sampler; with oldLogprobs: sampler both are the same',
      ),
    )
  }
  if (reinforce.oldLogprobs === 'sampler' && reinforce.loss.sequenceMask !== null) {
    problems.push(
      problem(
        at('loss', 'sequenceMask'),
        'has no effect with oldLogprobs: sampler',
        'it compares trainer with sampler, which are the same then; leave one of both out',
      ),
    )
  }
  if (reinforce.advantage.scale === 'none' && reinforce.advantage.delta !== DEFAULT_DELTA) {
    problems.push(
      problem(
        at('advantage', 'delta'),
        'has no effect with scale: none',
        'it is added to the standard deviation, which nothing is divided by then; leave it out',
      ),
    )
  }
  if (reinforce.oldLogprobs === 'sampler' && (trainer.exportDtype !== 'float32' || policyServer.kind !== 'embedded')) {
    problems.push(
      problem(
        at('oldLogprobs'),
        'expected trainer unless sampler and trainer both compute in float32, got "sampler"',
        'sampler is exact only with policyServer.kind: embedded and trainer.exportDtype: float32',
      ),
    )
  }
  problems.push(...stepRewardProblems(reinforce), ...expertProblems(recipe, reinforce), ...lossProblems(reinforce))
  const pool = suiteSize(recipe.data.train)
  if (
    reinforce.filter.refill !== false &&
    pool !== null &&
    reinforce.stages.every(({ problemsPerIteration }) => problemsPerIteration >= pool)
  ) {
    problems.push(
      problem(
        at('filter', 'refill'),
        `expected tasks beside the problems of an iteration, but each iteration plays all ${pool} of data.train`,
        'lower problemsPerIteration, name more tasks, or set refill: false',
      ),
    )
  }
  return [...problems, ...reinforce.stages.flatMap((_, index) => stageProblems(recipe, reinforce, index))]
}

function stepRewardProblems({ stepRewards, mask }: ReinforceRecipe): RecipeProblem[] {
  if (stepRewards === undefined) return []
  const { formatError, stoppedCommand } = stepRewards
  if (formatError === 0 && stoppedCommand === 0) {
    const hint = 'turns differ by nothing else that records hold; name a price, or leave stepRewards out'
    return [problem(at('stepRewards'), 'expected formatError or stoppedCommand below 0, got 0 for both', hint)]
  }
  if (formatError !== 0 && mask.formatErrorTurns === 0) {
    const hint = 'the turn that pays has no loss then, so only those before it would learn; set formatErrorTurns: 1'
    return [problem(at('stepRewards', 'formatError'), 'expected 0 with mask.formatErrorTurns: 0', hint)]
  }
  return []
}

function expertProblems({ rft }: Settings, { experts, groupSize }: ReinforceRecipe): RecipeProblem[] {
  if (experts === undefined) return []
  if (rft === null) {
    const hint = 'experts are the episodes that fine-tuning kept; add rft, or leave experts out'
    return [problem(at('experts'), 'expected a recipe with rft, got none', hint)]
  }
  if (experts.below > groupSize) {
    const hint = 'a group whose every episode succeeds needs no expert'
    return [problem(at('experts', 'below'), `expected at most groupSize ${groupSize}, got ${experts.below}`, hint)]
  }
  return []
}

/** Refuses settings that an algorithm would ignore, or that would make it another algorithm. */
function lossProblems(reinforce: ReinforceRecipe): RecipeProblem[] {
  const { loss, advantage, stages } = reinforce
  const problems: RecipeProblem[] = []
  const { algorithm = 'dapo', level, normalizer, behaviourCorrection } = loss
  const shape = LOSS_SHAPES[algorithm]
  const inLoss = (key: string, message: string, hint: string): void => {
    problems.push(problem(at('loss', key), message, hint))
  }
  if (level !== shape.level) {
    inLoss('level', `expected ${shape.level} with algorithm: ${algorithm}, got ${level}`, 'leave it out: it follows')
  }
  const isBudget = normalizer === 'tokenBudget'
  if (isBudget && shape.normalizer !== 'globalActionTokens') {
    const hint = 'a budget of tokens stands in the place of their number: dapo and cispo divide by that'
    inLoss('normalizer', `expected ${shape.normalizer} with algorithm: ${algorithm}, got ${normalizer}`, hint)
  }
  if (!isBudget && normalizer !== shape.normalizer) {
    const hint = 'leave it out: it follows'
    inLoss('normalizer', `expected ${shape.normalizer} with algorithm: ${algorithm}, got ${normalizer}`, hint)
  }
  for (const [index, { batch }] of stages.entries()) {
    if (isBudget === (typeof batch !== 'number')) continue
    const expected = isBudget
      ? '{ tokens: N } with loss.normalizer: tokenBudget'
      : 'a number of trajectories without loss.normalizer: tokenBudget'
    const hint = 'both say that a step has a constant number of loss tokens, so they go together, in every stage'
    problems.push(problem(at('stages', index, 'batch'), `expected ${expected}, got ${JSON.stringify(batch)}`, hint))
  }
  if (algorithm === 'dpo') problems.push(...preferenceProblems(reinforce))
  else {
    for (const [index, { clip }] of stages.entries()) {
      if (clip !== undefined) continue
      const hint = 'how far the ratio of old and new probability may go: low: 0.2, high: 0.28 in DAPO'
      problems.push(problem(at('stages', index, 'clip'), 'expected low and high, got none', hint))
    }
  }
  if (algorithm === 'drGrpo' && advantage.scale !== 'none') {
    const hint = 'Dr. GRPO divides neither by the deviation nor by the length; grpo does both'
    const message = `expected none with loss.algorithm: drGrpo, got ${advantage.scale}`
    problems.push(problem(at('advantage', 'scale'), message, hint))
  }
  if (algorithm === 'cispo' && loss.dualClip !== null) {
    inLoss(
      'dualClip',
      'has no effect with algorithm: cispo',
      'its ratio is clipped on both sides already; leave it out',
    )
  }
  if (algorithm === 'gspo' && (behaviourCorrection === 'tis' || behaviourCorrection === 'icepop')) {
    const message = `expected none, sequenceTis or geometricTis with algorithm: gspo, got "${behaviourCorrection}"`
    inLoss('behaviourCorrection', message, 'gspo has one ratio for a whole trajectory, so its correction has one too')
  }
  return problems
}

/** DPO reads pairs and a reference policy. It uses neither ratios nor advantages nor data of the sampler. */
function preferenceProblems(reinforce: ReinforceRecipe): RecipeProblem[] {
  const { loss, advantage, filter, oldLogprobs, stepRewards, experts, stages } = reinforce
  const problems: RecipeProblem[] = []
  if (loss.kl === 0) {
    const hint =
      'its coefficient is the beta of dpo, and its reference the policy that both trajectories are held against'
    problems.push(problem(at('loss', 'kl'), 'expected { coefficient, reference } with algorithm: dpo, got 0', hint))
  }
  const unread: [isSet: boolean, path: KeyPath][] = [
    [loss.entropy !== 0, at('loss', 'entropy')],
    [loss.dualClip !== null, at('loss', 'dualClip')],
    [loss.behaviourCorrection !== 'none', at('loss', 'behaviourCorrection')],
    [loss.sequenceMask !== null, at('loss', 'sequenceMask')],
    [oldLogprobs !== 'trainer', at('oldLogprobs')],
    [advantage.scale !== 'groupStd', at('advantage', 'scale')],
    [advantage.delta !== DEFAULT_DELTA, at('advantage', 'delta')],
    [filter.on !== 'outcome', at('filter', 'on')],
    [!filter.alsoZeroAdvantage, at('filter', 'alsoZeroAdvantage')],
    [stepRewards !== undefined, at('stepRewards')],
    [experts !== undefined, at('experts')],
    ...stages.map(({ clip }, index): [boolean, KeyPath] => [clip !== undefined, at('stages', index, 'clip')]),
  ]
  const hint =
    'dpo compares a success with a failure of its group and reads neither ratios nor advantages; leave it out'
  problems.push(
    ...unread.flatMap(([isSet, path]) => (isSet ? [problem(path, 'has no effect with algorithm: dpo', hint)] : [])),
  )
  for (const [index, { batch }] of stages.entries()) {
    if (typeof batch !== 'number' || batch % 2 === 0) continue
    const even = 'a step holds whole pairs, of two trajectories each'
    problems.push(
      problem(at('stages', index, 'batch'), `expected an even number with algorithm: dpo, got ${batch}`, even),
    )
  }
  return problems
}

function stageProblems({ data, scaffold }: Settings, reinforce: ReinforceRecipe, index: number): RecipeProblem[] {
  const stage = reinforce.stages[index]
  if (stage === undefined) return []
  const problems: RecipeProblem[] = []
  const inStage = (...rest: KeyPath): KeyPath => ['reinforce', 'stages', index, ...rest]
  const most = stage.problemsPerIteration * reinforce.groupSize
  if (reinforce.stages.findIndex(({ name }) => name === stage.name) !== index) {
    problems.push(problem(inStage('name'), `expected its own name, got ${stage.name} again`, 'names are part of ids'))
  }
  if (isReservedStage(stage.name) || isRunFolder(stage.name)) {
    problems.push(
      problem(
        inStage('name'),
        `expected another name, got ${stage.name}`,
        'base, rft, rl, eval-…, names that end like an iteration (-0001) and those of a run’s own folders (training, report) mean other parts of a run',
      ),
    )
  }
  if (stage.penaltyStart >= stage.maxTurns) {
    problems.push(
      problem(
        inStage('penaltyStart'),
        `expected less than maxTurns ${stage.maxTurns}, got ${stage.penaltyStart}`,
        'the turn penalty grows from penaltyStart to maxTurns',
      ),
    )
  }
  if (typeof stage.batch === 'number' && stage.batch > most) {
    problems.push(
      problem(
        inStage('batch'),
        `expected at most ${stage.problemsPerIteration} problems × ${reinforce.groupSize} = ${most} trajectories, got ${stage.batch}`,
        'one optimizer step cannot hold more than an iteration collects',
      ),
    )
  }
  const pool = suiteSize(data.train)
  if (pool !== null && stage.problemsPerIteration > pool) {
    problems.push(
      problem(
        inStage('problemsPerIteration'),
        `expected at most the ${pool} tasks of data.train, got ${stage.problemsPerIteration}`,
        'raise data.train.count or lower problemsPerIteration',
      ),
    )
  }
  if ((stage.pool === 'reselected') !== (stage.select !== null)) {
    problems.push(
      problem(
        inStage('pool'),
        `expected ${stage.select === null ? 'filtered' : 'reselected'} ${stage.select === null ? 'without' : 'with'} select, got ${stage.pool}`,
        'pool: reselected and select belong together',
      ),
    )
  }
  if (stage.select !== null && !reinforce.stages.slice(0, index).some(({ name }) => name === stage.select?.over)) {
    problems.push(
      problem(
        inStage('select', 'over'),
        `expected an earlier stage, got ${JSON.stringify(stage.select.over)}`,
        `earlier stages: ${
          reinforce.stages
            .slice(0, index)
            .map(({ name }) => name)
            .join(', ') || 'none'
        }`,
      ),
    )
  }
  const { plateau } = stage.until
  if (plateau !== null && (reinforce.evaluateEvery === null || reinforce.evaluateEvery > plateau.window)) {
    problems.push(
      problem(
        inStage('until', 'plateau', 'window'),
        `expected reinforce.evaluateEvery of at most the window ${plateau.window}, got ${reinforce.evaluateEvery ?? 'no evaluation'}`,
        'a plateau is read from the evaluations inside the stage',
      ),
    )
  }
  problems.push(...contextRoom(inStage(), stage, scaffold.limits.maxTokensPerTurn))
  return problems
}
