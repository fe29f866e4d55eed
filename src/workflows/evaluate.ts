import {
  allHandlersFinished,
  CancellationScope,
  condition,
  log,
  ParentClosePolicy,
  patched,
  setCurrentDetails,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow'
import { showMean } from '../domain/statistics/statistics.ts'
import { evaluationName, evaluationOf, stageOf, UNNAMED_EVALUATION } from '../contracts/episode-purpose.ts'
import { workflowIds } from '../contracts/workflow-ids.ts'
import type { PolicyRef } from '../contracts/policy.types.ts'
import type {
  EvaluateChild,
  EvaluateInput,
  EvaluateResult,
  PreparedSuite,
  RecalledRun,
  ResolvedRun,
  RolloutInput,
  StageScore,
} from '../contracts/workflows.types.ts'
import { artifacts, control, publishing, slowControl } from './activity-proxies.ts'
import { failRun, withCode } from './failures.ts'
import { runChild } from './run-child.ts'
import { gateAsChild, requireImages } from './gate-tasks.ts'
import { requireResult } from './require-result.ts'
import { receiveSignal } from './receive-signal.ts'
import { resolveRun, withBoard } from './resolve-run.ts'
import { rollout } from './rollout.ts'
import { steerable } from './root-steering.ts'
import { RunBoard } from './run-board.ts'
import {
  childControl,
  controlSignal,
  passOnRequeue,
  provenOf,
  requeueSignal,
  type RunControl,
  steerEarlier,
  steerOpen,
  watchable,
  whilePaused,
} from './run-control.ts'
import { attributes, stageAttributes } from './search-attributes.ts'

/**
 * k attempts of one policy at every task of a suite. Started alone (`{"recipe": "nightly"}`), it resolves its recipe, gates its suites,
 * publishes the policy and plays further suites before the held-out one. As a child of `trainAgent` it only plays one suite. Children:
 * `rollout`, `gateTasks`. Updates `pause`, `resume`, `setLimits`, `requeue`; queries `progress`, `failures`, `blockers`, `config`. A
 * pause holds between suites and in the open rollout. Infra episodes count in no mean. On cancel the rollout is cancelled and leases
 * are released.
 */
export async function evaluate(input: EvaluateInput = {}): Promise<EvaluateResult> {
  if (input.child === undefined) return evaluateAlone(input)
  try {
    watchable(input.child.plan.run)
    return await new Scoring(input.child).score(input.child)
  } catch (error) {
    throw withCode(error)
  }
}

async function evaluateAlone(input: EvaluateInput): Promise<EvaluateResult> {
  const job = new Evaluation()
  try {
    requireSeries(input.series)
    const { run, recalled } = await resolveRun('eval', { ...input, recipe: input.recipe ?? 'nightly' })
    try {
      return await job.play(run, recalled, { asked: input.policy ?? 'recipe', series: input.series })
    } finally {
      await CancellationScope.nonCancellable(() => publishing.releasePolicies({ run: run.run }))
    }
  } catch (error) {
    const named = withCode(error)
    job.fail(named)
    throw named
  } finally {
    await CancellationScope.nonCancellable(() => condition(allHandlersFinished, '1 minute'))
  }
}

/** The series becomes part of a key that is written at the end of the night, so it is validated before the night begins. */
function requireSeries(series: string | undefined): void {
  if (series === undefined || /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/.test(series)) return
  const got = JSON.stringify(series)
  throw failRun('Config.Invalid', `Expected series to be 1 to 100 letters, digits, ".", "_" or "-", got ${got}`)
}

/** Plays suites, one at a time. Their control may change meanwhile. */
class Scoring {
  readonly steering: RunControl
  openRollout: string | null = null

  constructor({ paused, concurrency }: Pick<EvaluateChild, 'paused' | 'concurrency'>) {
    this.steering = { paused: paused ?? false, stopAfterIteration: null, concurrency: concurrency ?? null }
    receiveSignal(controlSignal, async (next) => {
      Object.assign(this.steering, next)
      await this.deliver()
    })
    receiveSignal(requeueSignal, (order) => passOnRequeue(this.openRollout, order))
  }

  deliver(): Promise<unknown> {
    return steerOpen(this.openRollout, () => this.openRollout, this.steering)
  }

  async score(child: EvaluateChild, say: (details: string) => void = setCurrentDetails): Promise<EvaluateResult> {
    const { plan, name, policy, suite: which = 'heldOut', publish = false, after } = child
    const { run } = plan
    const stage = stageOf({ kind: 'evaluation', ...evaluationOf(name) })
    const suite = requireResult('prepareSuite', await slowControl.prepareSuite({ run, which }))
    const {
      collected,
      finished: _,
      evaluated,
      ...planned
    } = requireResult(
      'planIteration',
      await control.planIteration({
        run,
        stage,
        iteration: 0,
        suite: suite.suite,
        policy: policy.version,
        ...(after === undefined ? {} : { after }),
        ...provenOf(plan),
      }),
    )
    if (evaluated !== undefined) return { ...evaluated.score, run, evaluation: evaluated.evaluation }
    upsertSearchAttributes(stageAttributes({ run, stage, iteration: 0, policy: policy.version }))
    say(`evaluating **${policy.version}** on ${planned.tasks} tasks of ${suite.name}, k = ${planned.groupSize}`)

    let infra = 0
    if (collected !== true) {
      if (publish) await publishing.publishPolicy({ run, policy })
      await whilePaused(this.steering)
      const workflowId = workflowIds.rollout(workflowIds.root(plan), stage, 0)
      this.openRollout = workflowId
      const options = {
        workflowId,
        args: (): [RolloutInput] => [
          { run, stage, iteration: 0, policy, suite: suite.suite, ...planned, ...childControl(plan, this.steering) },
        ],
        parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
        staticSummary: `${suite.name} · ${policy.version} · k=${planned.groupSize}`,
      }
      const counts = await runChild(rollout, options, steerEarlier(workflowId, this.steering)).finally(() => {
        this.openRollout = null
      })
      infra = counts.infra
    }
    const summary = await artifacts.summarizeEvaluation({ run, name, stage, policy, suite: suite.suite })
    const { score: result, evaluation } = requireResult('summarizeEvaluation', summary)
    upsertSearchAttributes([{ key: attributes.resolvedRate, value: result.passAt1 }])
    say(
      `pass@1 **${showMean({ ...result, mean: result.passAt1 })}** (n = ${result.tasks}, k = ${result.attempts}, infra ${infra}) · ${policy.version}`,
    )
    log.info('evaluation done', { name, passAt1: result.passAt1, sem: result.sem, tasks: result.tasks })
    return { ...result, run, evaluation }
  }
}

const NIGHT_WORDS = { last: 'Against the last night', baseline: 'Against the baseline' } as const

/** An evaluation that was started alone, and its steering by operators. */
class Evaluation {
  readonly #scores: StageScore[] = []
  readonly #scoring = new Scoring({})
  #said = ''
  #series = ''
  /** One line for the comparison with the last night and one for the baseline. */
  readonly #verdicts: string[] = []
  readonly #board = new RunBoard({
    steering: this.#scoring.steering,
    phase: 'resolving the recipe',
    since: workflowInfo().startTime,
    scores: this.#scores,
    openChild: () => this.#scoring.openRollout,
    details: (run) => [
      run === null ? '' : `What it waits for, since when and for whom: \`longhaul run blockers ${run}\``,
      this.#said,
      ...this.#verdicts,
    ],
  })

  constructor() {
    steerable({
      board: this.#board,
      deliver: () => this.#scoring.deliver(),
      openChild: () => this.#scoring.openRollout,
    })
  }

  fail(error: Error): void {
    this.#board.fail(error.message)
  }

  async play(
    resolved: ResolvedRun,
    recalled: RecalledRun | null,
    { asked, series }: { asked: string; series: string | undefined },
  ): Promise<EvaluateResult> {
    const { startTime } = workflowInfo()
    this.#board.name(resolved.run, resolved)
    const run = withBoard(resolved)
    const suites = run.suites ?? []
    this.#series = series ?? run.recipeName
    const kept = asked === 'kept' || (asked === 'recipe' && run.policies === 'kept') ? await this.#kept(run) : []
    const early = kept[0] ?? (await this.#policyFirst(run, asked))
    if (patched('images-first')) {
      const prepared: PreparedSuite[] = []
      for (const which of ['heldOut', ...suites]) prepared.push(await this.#prepare(run, which))
      await this.#enter('looking for the images')
      await requireImages(run, prepared)
      for (const suite of prepared) await this.#gate(run, suite)
    } else {
      for (const which of ['heldOut', ...suites]) await this.#gate(run, await this.#prepare(run, which))
    }
    const policy =
      early ?? requireResult('resolvePolicy', await slowControl.resolvePolicy({ run: run.run, policy: asked }))
    const name = run.evaluation ?? UNNAMED_EVALUATION
    // Oldest first, so that the servers end with the newest policy.
    for (const older of kept.slice(1).toReversed()) {
      await this.#enter(`evaluating ${older.version}, promoted before`)
      const child = { plan: run, name: `${name}-${older.version}`, policy: older, publish: true } as const
      await this.#score(child, `policy:${older.version}`)
    }
    if (recalled === null || recalled.scores.length <= suites.length) {
      await this.#enter(`publishing ${policy.version}`)
      await publishing.publishPolicy({ run: run.run, policy })
    }
    for (const suite of suites) {
      await this.#enter(`evaluating ${policy.version} on ${suite}`)
      await this.#score(
        { plan: run, name: evaluationName({ name, iteration: null, suite }), policy, suite },
        `suite:${suite}`,
      )
    }
    // Last, so that the workflow finally shows the held-out score.
    await this.#enter(`evaluating ${policy.version}`)
    const result = await this.#score({ plan: run, name, policy }, 'main')
    const durations = { total: (Date.now() - startTime.getTime()) / 1000 }
    const report = await artifacts.writeReport({ run: run.run, durations, scores: this.#scores })
    requireResult('writeReport', report)
    this.#board.enter('done')
    return result
  }

  async #prepare({ run }: ResolvedRun, which: string): Promise<PreparedSuite> {
    await this.#enter(`preparing the ${which === 'heldOut' ? 'held-out' : which} suite`)
    const suite = requireResult('prepareSuite', await slowControl.prepareSuite({ run, which }))
    if (suite.split !== undefined && which === 'heldOut')
      upsertSearchAttributes([{ key: attributes.split, value: suite.split }])
    return suite
  }

  async #gate(run: ResolvedRun, suite: PreparedSuite): Promise<void> {
    if (suite.gated === true) return
    await this.#enter(`gating ${suite.tasks} tasks of ${suite.name}`)
    await gateAsChild({ run, suite })
  }

  /** The policies that are still to be evaluated, newest first. */
  async #kept({ run }: ResolvedRun): Promise<PolicyRef[]> {
    return requireResult('keptPolicies', await control.keptPolicies({ run })).policies
  }

  /** Runs that began before this rule found a missing model after their gates. */
  async #policyFirst({ run }: ResolvedRun, policy: string): Promise<PolicyRef | null> {
    return patched('policy-first')
      ? requireResult('resolvePolicy', await slowControl.resolvePolicy({ run, policy }))
      : null
  }

  /** @param role names the same evaluation in every night */
  async #score(child: EvaluateChild, role: string): Promise<EvaluateResult> {
    const result = await this.#scoring.score(child, (details) => {
      this.#said = details
      this.#board.show()
    })
    const { name, policy, passAt1, sem, tasks, attempts } = result
    this.#scores.push({ name, policy, passAt1, sem, tasks, attempts })
    if (child.plan.nights !== true) {
      this.#board.show()
      return result
    }
    const at = workflowInfo().startTime.toISOString()
    const night = await artifacts.recordNight({ run: child.plan.run, name, at, series: this.#series, role })
    const { verdicts } = requireResult('recordNight', night)
    for (const { against, outcome, statement } of verdicts)
      this.#verdicts.push(`${NIGHT_WORDS[against]}, ${name}: **${outcome.replaceAll('-', ' ')}** · ${statement}`)
    this.#board.show()
    return verdicts.length === 0 ? result : { ...result, verdicts }
  }

  /** Holds while the run is paused between two phases. */
  async #enter(phase: string): Promise<void> {
    if (this.#scoring.steering.paused) this.#board.enter(`paused before ${phase}`)
    await whilePaused(this.#scoring.steering)
    this.#board.enter(phase)
  }
}
