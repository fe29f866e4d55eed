import {
  allHandlersFinished,
  condition,
  continueAsNew,
  log,
  ParentClosePolicy,
  patched,
  setCurrentDetails,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow'
import type { BuiltBatch, PlannedIteration } from '../contracts/activities.types.ts'
import type { PolicyRef } from '../contracts/policy.types.ts'
import { evaluationName } from '../contracts/episode-purpose.ts'
import { workflowIds } from '../contracts/workflow-ids.ts'
import type { ReinforceInput, TrainingStageResult } from '../contracts/workflows.types.ts'
import { artifacts, control, publishing, training } from './activity-proxies.ts'
import { evaluate } from './evaluate.ts'
import { failRun, withCode } from './failures.ts'
import { requireResult } from './require-result.ts'
import { receiveSignal } from './receive-signal.ts'
import { runChild } from './run-child.ts'
import { rollout } from './rollout.ts'
import {
  childControl,
  controlSignal,
  pauseOnAlarm,
  passOnRequeue,
  requeueSignal,
  provenOf,
  type RunControl,
  steerEarlier,
  steerOpen,
  whilePaused,
} from './run-control.ts'
import { attributes, stageAttributes } from './search-attributes.ts'

/** About 60 events per iteration, so 25 iterations stay far below the 4,096 events at which the server suggests continuing as new. */
const ITERATIONS_PER_EXECUTION = 25

/**
 * One DAPO stage: collect → score → train → publish, strictly in that order, as often as the recipe says. Children: one `rollout` per
 * iteration and, if the recipe refills groups without a spread, one per refill round; `evaluate` every n iterations. Continues as new
 * every 25 iterations, when no child is open and every message was handled. Begins at the first iteration without complete records. A
 * pause holds before the next iteration and before new groups; `stopAfterIteration` ends the stage early and successfully. A training
 * job with an alarm pauses the stage and the run. If the recipe says so, the stage ends when evaluations stop improving.
 */
export async function reinforce(input: ReinforceInput): Promise<TrainingStageResult> {
  const stage = input.plan.stages[input.stageIndex]
  if (stage === undefined) throw failRun('Config.Invalid', `The recipe has no reinforce stage ${input.stageIndex}`)
  const steering: RunControl = {
    paused: input.paused ?? false,
    stopAfterIteration: input.stopAfter ?? null,
    concurrency: input.concurrency ?? null,
  }
  let openRollout: string | null = null
  let openEvaluation: string | null = null
  const openChild = (): string | null => openRollout ?? openEvaluation
  receiveSignal(controlSignal, async (next) => {
    Object.assign(steering, next)
    const evaluation = openEvaluation !== null && patched('steer-evaluations') ? openEvaluation : null
    await steerOpen(openRollout ?? evaluation, openChild, steering)
  })
  receiveSignal(requeueSignal, (order) => passOnRequeue(openChild(), order))
  let policy = input.policy
  let iteration = input.iteration ?? 1
  /** The policy was taken from records, so it must be published before the next rollout or evaluation. */
  let unpublished = input.unpublished ?? false
  try {
    for (; iteration <= lastIteration(stage.maxIterations, steering); iteration++) {
      if (isTimeForNewExecution(iteration, input.iteration ?? 1)) {
        await condition(allHandlersFinished, '1 minute')
        return await continueAsNew<typeof reinforce>({
          ...input,
          policy,
          iteration,
          ...(unpublished ? { unpublished } : {}),
          paused: steering.paused,
          concurrency: steering.concurrency ?? null,
          stopAfter: steering.stopAfterIteration,
        })
      }
      await whilePaused(steering)
      const onRollout = (workflowId: string): void => {
        openRollout = workflowId
      }
      const step = { input, stage: stage.name, iteration, policy, unpublished, steering, onRollout }
      const iterated = await iterate(step)
      openRollout = null
      if (iterated === 'over') break
      ;({ policy, unpublished } = iterated)
      const onEvaluation = (workflowId: string | null): void => {
        openEvaluation = workflowId
      }
      const evaluated = { input, stage: stage.name, iteration, policy, unpublished, steering }
      const isEvaluated = await evaluateInsideStage(evaluated, onEvaluation)
      if (isEvaluated && stage.plateau === true && (await hasPlateaued(input, stage.name, iteration))) {
        return resultOf({ policy, iterations: iteration, unpublished })
      }
    }
    return resultOf({ policy, iterations: iteration - 1, unpublished })
  } catch (error) {
    throw withCode(error)
  }
}

function resultOf({ policy, iterations, unpublished }: Trained & { iterations: number }): TrainingStageResult {
  return { policy, iterations, ...(unpublished ? { unpublished } : {}) }
}

function lastIteration(maxIterations: number, { stopAfterIteration }: RunControl): number {
  return stopAfterIteration === null ? maxIterations : Math.min(maxIterations, stopAfterIteration)
}

function isTimeForNewExecution(iteration: number, first: number): boolean {
  return iteration > first && (iteration - first >= ITERATIONS_PER_EXECUTION || workflowInfo().continueAsNewSuggested)
}

interface Trained {
  policy: PolicyRef
  unpublished: boolean
}

interface Step extends Trained {
  input: ReinforceInput
  stage: string
  iteration: number
}

interface Collecting extends Step {
  steering: RunControl
  /** Called with the id of each rollout that begins. */
  onRollout: (workflowId: string) => void
}

async function iterate(step: Collecting): Promise<Trained | 'over'> {
  const { input, stage, iteration, policy, steering } = step
  const { run } = input.plan
  const { suite } = input
  const coordinates = { run, stage, iteration }
  upsertSearchAttributes(stageAttributes({ ...coordinates, policy: policy.version }))
  const {
    collected,
    finished,
    evaluated: _,
    refill = 0,
    over,
    ...planned
  } = requireResult(
    'planIteration',
    await control.planIteration({ ...coordinates, suite, policy: policy.version, ...provenOf(input.plan) }),
  )
  if (over !== undefined) {
    log.warn('the run has left this stage, so no further iteration begins', { stage, iteration })
    return 'over'
  }
  if (finished !== undefined) {
    log.info('iteration taken from records', { stage, iteration, policy: finished.policy?.version ?? policy.version })
    return finished.policy === null ? step : { policy: finished.policy, unpublished: true }
  }
  if (collected !== true) {
    if (step.unpublished) await publishing.publishPolicy({ run, policy })
    await collect(step, planned, refill)
  }
  const built = requireResult('buildBatch', await artifacts.buildBatch({ ...coordinates, policy, suite }))
  setCurrentDetails(describe(stage, iteration, policy, built))
  if (patched('reward-attribute')) upsertSearchAttributes([{ key: attributes.reward, value: built.meanReward }])
  const batch = built.batches[0]
  if (batch === undefined) {
    // All rewards of every group are equal, so there is no gradient. The paper fixes the number of problems and not of steps.
    log.warn('no group with a spread: the iteration trains nothing', { stage, iteration })
    return { policy, unpublished: step.unpublished && collected === true }
  }
  const summary = `${stage} · iteration ${iteration} · ${built.trajectories} trajectories`
  const job = await training.runTrainingJob.executeWithOptions({ summary }, [
    { ...coordinates, kind: 'dapo', slice: 0, batch, policy },
  ])
  requireResult('runTrainingJob', job)
  await publishing.publishPolicy({ run, policy: job.policy })
  if (job.hold !== undefined) await pauseOnAlarm(steering, { stage, iteration, why: job.hold })
  return { policy: job.policy, unpublished: false }
}

/** Plays the iteration's problems, then in each round another problem for each group without a spread, up to the recipe's bound. */
async function collect(step: Collecting, planned: PlannedIteration, rounds: number): Promise<void> {
  const { input, stage, iteration, policy, steering } = step
  const { suite } = input
  const coordinates = { run: input.plan.run, stage, iteration }
  const play = async (workflowId: string, plan: PlannedIteration, what: string): Promise<void> => {
    step.onRollout(workflowId)
    await runChild(
      rollout,
      {
        workflowId,
        args: () => [{ ...coordinates, policy, suite, ...plan, ...childControl(step.input.plan, steering) }],
        parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
        staticSummary: `${stage} · iteration ${iteration}${what} · ${plan.tasks} × ${plan.groupSize} · ${policy.version}`,
      },
      steerEarlier(workflowId, steering),
    )
  }
  const rolloutId = workflowIds.rollout(workflowIds.train(coordinates.run), stage, iteration)
  await play(rolloutId, planned, '')
  for (let round = 1; round <= rounds; round++) {
    const more = requireResult('planRefill', await artifacts.planRefill({ ...coordinates, suite, round }))
    // Every group has a spread, or the iteration has played the whole pool.
    if (more.tasks === 0) break
    await whilePaused(steering)
    await play(workflowIds.refill(rolloutId, round), more, ` · refill ${round}`)
  }
}

async function evaluateInsideStage(
  { input, stage, iteration, policy, unpublished, steering }: Step & { steering: RunControl },
  onEvaluation: (workflowId: string | null) => void,
): Promise<boolean> {
  const every = input.plan.evaluateEvery
  if (every === null || iteration % every !== 0) return false
  const name = evaluationName({ name: stage, iteration, suite: null })
  const workflowId = workflowIds.evaluate(workflowIds.train(input.plan.run), name)
  onEvaluation(workflowId)
  const publish = unpublished ? { publish: unpublished } : {}
  await runChild(
    evaluate,
    {
      workflowId,
      args: () => {
        const { paused, concurrency = null } = steering
        const after = { stage, iteration }
        return [{ child: { plan: input.plan, name, policy, after, ...publish, paused, concurrency } }]
      },
      parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
      staticSummary: `${name} · ${policy.version}`,
    },
    steerEarlier(workflowId, steering),
  ).finally(() => onEvaluation(null))
  return true
}

async function hasPlateaued({ plan }: ReinforceInput, stage: string, iteration: number): Promise<boolean> {
  const judged = await control.judgePlateau({ run: plan.run, stage, iteration })
  const { plateau } = requireResult('judgePlateau', judged)
  if (plateau) log.info('held-out evaluations have stopped improving: the stage ends', { stage, iteration })
  return plateau
}

function describe(stage: string, iteration: number, policy: PolicyRef, built: BuiltBatch): string {
  return [
    `| stage | iteration | groups kept | trajectories | mean reward | resolved | turns | infra | policy |`,
    `|---|---|---|---|---|---|---|---|---|`,
    `| ${stage} | ${iteration} | ${built.groupsKept} / ${built.groups} | ${built.trajectories} | ${built.meanReward.toFixed(3)} | ${built.resolvedRate.toFixed(3)} | ${built.meanTurns.toFixed(2)} | ${built.infra} | ${policy.version} |`,
  ].join('\n')
}
