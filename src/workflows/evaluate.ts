import {
  CancellationScope,
  log,
  ParentClosePolicy,
  setCurrentDetails,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow'
import { evaluationName, evaluationOf, stageOf, UNNAMED_EVALUATION } from '../contracts/episode-purpose.ts'
import { workflowIds } from '../contracts/workflow-ids.ts'
import type { EvaluateChild, EvaluateInput, EvaluateResult } from '../contracts/workflows.types.ts'
import { artifacts, control, publishing, slowControl } from './activity-proxies.ts'
import { withCode } from './failures.ts'
import { runChild } from './run-child.ts'
import { gateAsChild } from './gate-tasks.ts'
import { resolveRun } from './resolve-run.ts'
import { rollout } from './rollout.ts'
import { attributes, stageAttributes } from './search-attributes.ts'
import { type RootProgress, watchable } from './run-control.ts'

/**
 * k attempts of one policy at every task of a suite. Started alone (`{"recipe": "nightly"}`) it resolves its recipe, gates its suites,
 * publishes the policy and plays further suites before the held-out one; as a child of `trainAgent` it only plays one suite. Children:
 * `rollout`, `gateTasks`. Infra episodes count in no mean. On cancel the rollout is cancelled and leases are released.
 */
export async function evaluate(input: EvaluateInput = {}): Promise<EvaluateResult> {
  const progress = watchable(input.child?.plan.run ?? null)
  try {
    if (input.child) return await score(input.child)
    return await evaluateAlone(input, progress)
  } catch (error) {
    throw withCode(error)
  }
}

async function evaluateAlone(input: EvaluateInput, progress: RootProgress): Promise<EvaluateResult> {
  const { startTime } = workflowInfo()
  const { run, recalled } = await resolveRun('eval', { ...input, recipe: input.recipe ?? 'nightly' })
  progress.enter('preparing the held-out suite', run.run)
  try {
    for (const which of ['heldOut', ...(run.suites ?? [])]) {
      const suite = await slowControl.prepareSuite({ run: run.run, which })
      if (suite.gated === true) continue
      progress.enter(`gating ${suite.tasks} tasks of ${suite.name}`)
      await gateAsChild({ run, suite })
    }
    const policy = await control.resolvePolicy({ run: run.run, policy: input.policy ?? 'recipe' })
    if (recalled === null || recalled.scores.length <= (run.suites ?? []).length) {
      progress.enter(`publishing ${policy.version}`)
      await publishing.publishPolicy({ run: run.run, policy })
    }
    progress.enter(`evaluating ${policy.version}`)
    const name = run.evaluation ?? UNNAMED_EVALUATION
    for (const suite of run.suites ?? []) {
      await score({ plan: run, name: evaluationName({ name, iteration: null, suite }), policy, suite })
    }
    // Last, so that what the workflow shows of itself is the held-out score.
    const result = await score({ plan: run, name, policy })
    await artifacts.writeReport({ run: run.run, durations: { total: (Date.now() - startTime.getTime()) / 1000 } })
    progress.enter('done')
    return result
  } finally {
    await CancellationScope.nonCancellable(() => publishing.releasePolicies({ run: run.run }))
  }
}

async function score(child: EvaluateChild): Promise<EvaluateResult> {
  const { plan, name, policy, suite: which = 'heldOut', publish = false } = child
  const { run } = plan
  const stage = stageOf({ kind: 'evaluation', ...evaluationOf(name) })
  const suite = await slowControl.prepareSuite({ run, which })
  const {
    collected,
    finished: _,
    evaluated,
    ...planned
  } = await control.planIteration({ run, stage, iteration: 0, suite: suite.suite })
  if (evaluated !== undefined) return { ...evaluated.score, run, evaluation: evaluated.evaluation }
  upsertSearchAttributes(stageAttributes({ run, stage, iteration: 0, policy: policy.version }))
  setCurrentDetails(
    `evaluating **${policy.version}** on ${planned.tasks} tasks of ${suite.name}, k = ${planned.groupSize}`,
  )

  let infra = 0
  if (collected !== true) {
    if (publish) await publishing.publishPolicy({ run, policy })
    const counts = await runChild(rollout, {
      workflowId: workflowIds.rollout(workflowIds.root(plan), stage, 0),
      args: [{ run, stage, iteration: 0, policy, suite: suite.suite, ...planned }],
      parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
      staticSummary: `${suite.name} · ${policy.version} · k=${planned.groupSize}`,
    })
    infra = counts.infra
  }
  const { score: result, evaluation } = await artifacts.summarizeEvaluation({
    run,
    name,
    stage,
    policy,
    suite: suite.suite,
  })
  upsertSearchAttributes([{ key: attributes.resolvedRate, value: result.passAt1 }])
  setCurrentDetails(
    `pass@1 **${result.passAt1.toFixed(3)} ± ${result.sem.toFixed(3)}** (n = ${result.tasks}, k = ${result.attempts}, infra ${infra}) · ${policy.version}`,
  )
  log.info('evaluation done', { name, passAt1: result.passAt1, sem: result.sem, tasks: result.tasks })
  return { ...result, run, evaluation }
}
