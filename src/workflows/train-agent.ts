import {
  allHandlersFinished,
  CancellationScope,
  condition,
  ParentClosePolicy,
  patched,
  workflowInfo,
} from '@temporalio/workflow'
import { showMean } from '../domain/statistics/statistics.ts'
import type { PolicyRef } from '../contracts/policy.types.ts'
import { evaluatedAfter, evaluationName, evaluationOf } from '../contracts/episode-purpose.ts'
import { workflowIds } from '../contracts/workflow-ids.ts'
import type {
  EvaluateChild,
  PreparedSuite,
  RecalledRun,
  ResolvedRun,
  StageScore,
  TrainAgentInput,
  TrainAgentResult,
  TrainingStageResult,
} from '../contracts/workflows.types.ts'
import { artifacts, control, publishing, slowControl } from './activity-proxies.ts'
import { evaluate } from './evaluate.ts'
import { withCode } from './failures.ts'
import { runChild } from './run-child.ts'
import { gateAsChild, requireImages } from './gate-tasks.ts'
import { reinforce } from './reinforce.ts'
import { rejectionFineTune } from './rejection-fine-tune.ts'
import { requireResult } from './require-result.ts'
import { receiveSignal } from './receive-signal.ts'
import { resolveRun, withBoard } from './resolve-run.ts'
import { steerable } from './root-steering.ts'
import { RunBoard } from './run-board.ts'
import { alarmSignal, type RunControl, steerEarlier, steerOpen, whilePaused } from './run-control.ts'

/**
 * The whole pipeline: gate the tasks, evaluate the base, fine-tune by rejection, reinforce stage by stage, evaluate after each,
 * promote, report. `{"recipe": "demo"}` is a complete input. Finished parts are taken from records. Children: `gateTasks`, `evaluate`,
 * `rejectionFineTune`, `reinforce`. Updates `pause`, `resume`, `setLimits`, `requeue`, `stopAfterIteration` are forwarded to the open
 * stage; queries `progress`, `failures`, `blockers`, `config`. Never continues as new (below 2,000 events). On cancel the open stage is
 * cancelled and policy leases are released.
 */
export async function trainAgent(input: TrainAgentInput = {}): Promise<TrainAgentResult> {
  const job = new TrainingRun()
  try {
    const { run, recalled } = await resolveRun('train', { ...input, recipe: input.recipe ?? 'demo' })
    try {
      return await job.play(run, recalled)
    } finally {
      await CancellationScope.nonCancellable(() => publishing.releasePolicies({ run: run.run }))
    }
  } catch (error) {
    job.fail(error)
    throw withCode(error)
  } finally {
    await CancellationScope.nonCancellable(() => condition(allHandlersFinished, '1 minute'))
  }
}

const SUITE_WORDS: Partial<Record<string, string>> = { train: 'training', heldOut: 'held-out' }

/** One run, and its steering by operators. */
class TrainingRun {
  readonly #steering: RunControl = { paused: false, stopAfterIteration: null }
  readonly #scores: StageScore[] = []
  readonly #board = new RunBoard({
    steering: this.#steering,
    phase: 'resolving the recipe',
    since: workflowInfo().startTime,
    scores: this.#scores,
    openChild: () => this.#openChild(),
    details: (run) => this.#details(run),
  })
  #openStage: string | null = null
  #openEvaluation: string | null = null
  #recalled: RecalledRun | null = null
  #base: string | null = null
  /** The version that this execution published last. */
  #published: string | null = null
  /** Seconds by phase; the times of a phase that is entered twice are added. */
  readonly #durations: Record<string, number> = {}
  /** Why the last policy was or was not promoted. */
  #promotion = ''
  #timer: { name: string; since: number } = { name: 'resolve', since: Date.now() }

  constructor() {
    receiveSignal(alarmSignal, async (alarm) => {
      this.#board.pauseOnAlarm(alarm)
      // The stage has paused itself. An order of this run that was on its way at that moment has let it go on.
      if (patched('alarm-passed-on')) await this.#deliver()
    })
    steerable({
      board: this.#board,
      deliver: () => this.#deliver(),
      openChild: () => this.#openChild(),
      hasIterations: true,
    })
  }

  fail(error: unknown): void {
    this.#board.fail(withCode(error).message)
  }

  async play(resolved: ResolvedRun, recalled: RecalledRun | null): Promise<TrainAgentResult> {
    this.#recalled = recalled
    this.#board.name(resolved.run, resolved)
    const { heldOut, train, run } = await this.#prepareAll(withBoard(resolved))

    this.#time('publish')
    this.#board.enter('publishing the base policy')
    let policy = requireResult('resolvePolicy', await slowControl.resolvePolicy({ run: run.run, policy: 'base' }))
    this.#base = policy.version
    await this.#evaluate(run, { name: 'base', policy })

    if (run.rft && train !== null) {
      policy = await this.#fineTune(run, train, policy)
      await this.#evaluate(run, { name: 'rft', policy, after: { stage: 'rft', iteration: 0 } })
    }
    for (const [index, stage] of run.stages.entries()) {
      if (train === null) break
      const trained = await this.#reinforce(run, train, index, policy)
      policy = trained.policy
      const isLast = index === run.stages.length - 1
      const after = trained.iterations > 0 ? { after: { stage: stage.name, iteration: trained.iterations } } : {}
      await this.#evaluate(run, { name: evaluatedAfter(stage.name, isLast), policy, ...after })
    }
    return this.#finish(run, heldOut, policy)
  }

  /** Runs before any gate: prepares every suite, proves that no training task is evaluated, and checks for the images. */
  async #prepareAll(
    run: ResolvedRun,
  ): Promise<{ heldOut: PreparedSuite; train: PreparedSuite | null; run: ResolvedRun }> {
    const isTraining = run.rft || run.stages.length > 0
    if (!patched('disjoint-suites')) {
      const heldOut = await this.#gate(run, await this.#prepare(run, 'heldOut'))
      for (const suite of run.suites ?? []) await this.#gate(run, await this.#prepare(run, suite))
      return { heldOut, train: isTraining ? await this.#gate(run, await this.#prepare(run, 'train')) : null, run }
    }
    const heldOut = await this.#prepare(run, 'heldOut')
    const further: PreparedSuite[] = []
    for (const suite of run.suites ?? []) further.push(await this.#prepare(run, suite))
    const evaluated = [heldOut, ...further]
    const train = isTraining ? await this.#prepare(run, 'train') : null
    if (train !== null) {
      this.#board.enter('proving that no training task is evaluated')
      const hashes = [...new Set(evaluated.map(({ suite }) => suite))]
      const proof = await slowControl.requireDisjoint({ run: run.run, train: train.suite, evaluated: hashes })
      requireResult('requireDisjoint', proof)
    }
    if (patched('images-first')) {
      this.#board.enter('looking for the images')
      await requireImages(run, train === null ? evaluated : [...evaluated, train])
    }
    for (const suite of evaluated) await this.#gate(run, suite)
    if (train !== null) await this.#gate(run, train)
    return { heldOut, train, run: train === null ? run : { ...run, disjoint: true } }
  }

  async #prepare(run: ResolvedRun, which: string): Promise<PreparedSuite> {
    this.#time('prepare')
    this.#board.enter(`preparing the ${SUITE_WORDS[which] ?? which} suite`)
    return requireResult('prepareSuite', await slowControl.prepareSuite({ run: run.run, which }))
  }

  async #gate(run: ResolvedRun, suite: PreparedSuite): Promise<PreparedSuite> {
    this.#time('gate')
    if (suite.gated === true) return suite
    this.#board.enter(`gating ${suite.tasks} tasks of ${suite.name}`)
    await gateAsChild({ run, suite })
    return suite
  }

  /** Evaluates on the held-out suite, then on the further ones. */
  async #evaluate(run: ResolvedRun, evaluated: Pick<EvaluateChild, 'name' | 'policy' | 'after'>): Promise<void> {
    await this.#evaluateOn({ plan: run, ...evaluated })
    for (const suite of run.suites ?? []) {
      await this.#evaluateOn({
        plan: run,
        ...evaluated,
        name: evaluationName({ name: evaluated.name, iteration: null, suite }),
        suite,
      })
    }
  }

  async #evaluateOn(child: EvaluateChild): Promise<void> {
    const { plan: run, name, policy, suite } = child
    const recorded = this.#recalled?.scores.find((score) => score.name === name)
    if (recorded !== undefined) {
      this.#scores.push(recorded)
      return this.#board.show()
    }
    await this.#publish(run, policy)
    this.#time(`evaluate ${name}`)
    await this.#hold(`evaluating ${name} (${policy.version})`)
    const workflowId = workflowIds.evaluate(workflowIds.train(run.run), name)
    this.#openEvaluation = workflowId
    const result = await runChild(
      evaluate,
      {
        workflowId,
        args: () => {
          const { paused, concurrency = null } = this.#steering
          return [{ child: { ...child, paused, concurrency } }]
        },
        parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
        staticSummary: `${suite ?? run.heldOutName} · ${policy.version}`,
      },
      steerEarlier(workflowId, this.#steering),
    ).finally(() => {
      this.#openEvaluation = null
    })
    const { passAt1, sem, tasks, attempts } = result
    this.#scores.push({ name, policy: policy.version, passAt1, sem, tasks, attempts })
    this.#board.show()
  }

  async #fineTune(run: ResolvedRun, suite: PreparedSuite, policy: PolicyRef): Promise<PolicyRef> {
    if (this.#recalled?.rft !== undefined) return this.#recalled.rft
    await this.#publish(run, policy)
    this.#time('rft')
    await this.#hold('rejection fine-tuning')
    const workflowId = workflowIds.rft(workflowIds.train(run.run))
    const result = await this.#whileOpen(workflowId, () =>
      runChild(
        rejectionFineTune,
        {
          workflowId,
          args: () => {
            const { paused, concurrency = null } = this.#steering
            return [{ plan: run, policy, suite: suite.suite, paused, concurrency }]
          },
          parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
          staticSummary: `${run.summary} · rft`,
        },
        steerEarlier(workflowId, this.#steering),
      ),
    )
    return this.#ended(result)
  }

  async #reinforce(
    run: ResolvedRun,
    suite: PreparedSuite,
    stageIndex: number,
    policy: PolicyRef,
  ): Promise<Pick<TrainingStageResult, 'policy' | 'iterations'>> {
    const stage = run.stages[stageIndex]?.name ?? String(stageIndex)
    const recalled = this.#recalled?.stages.find(({ name }) => name === stage)
    // Its records say what it has trained.
    if (recalled?.isDone === true) return { policy: recalled.policy, iterations: 0 }
    // Not published here: if the next unfinished iteration has already trained, no episode needs this policy.
    const begin =
      recalled === undefined
        ? { policy }
        : { policy: recalled.policy, iteration: recalled.iteration, unpublished: true as const }
    if (recalled === undefined) await this.#publish(run, policy)
    this.#time(stage)
    await this.#hold(`reinforcing, ${stage}`)
    const workflowId = workflowIds.reinforce(workflowIds.train(run.run), stage)
    const result = await this.#whileOpen(workflowId, () =>
      runChild(
        reinforce,
        {
          workflowId,
          args: () => {
            const { paused, stopAfterIteration: stopAfter, concurrency = null } = this.#steering
            return [{ plan: run, stageIndex, ...begin, suite: suite.suite, paused, concurrency, stopAfter }]
          },
          parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL,
          staticSummary: `${run.summary} · ${stage}`,
        },
        steerEarlier(workflowId, this.#steering),
      ),
    )
    return { policy: this.#ended(result), iterations: result.iterations }
  }

  /** Called before the first episode that needs the policy. */
  async #publish({ run }: ResolvedRun, policy: PolicyRef): Promise<void> {
    if (this.#published === policy.version) return
    this.#board.enter(`publishing ${policy.version === this.#base ? 'the base policy' : policy.version}`)
    await publishing.publishPolicy({ run, policy })
    this.#published = policy.version
  }

  #ended({ policy, unpublished }: TrainingStageResult): PolicyRef {
    this.#published = unpublished === true ? null : policy.version
    return policy
  }

  async #finish({ run }: ResolvedRun, heldOut: PreparedSuite, policy: PolicyRef): Promise<TrainAgentResult> {
    const last = this.#scores.findLast(({ name }) => evaluationOf(name).suite === null)
    this.#board.enter(`promoting ${policy.version}, scored on ${heldOut.name}`)
    const promoted =
      last === undefined ? null : requireResult('promote', await control.promote({ run, policy, score: last }))
    this.#promotion = promoted?.why ?? ''
    this.#board.enter('writing the report')
    this.#time('report')
    const report = await artifacts.writeReport({
      run,
      durations: this.#durations,
      scores: this.#scores,
      ...(promoted?.why === undefined ? {} : { promoted: true }),
    })
    const { html } = requireResult('writeReport', report)
    this.#board.enter('done')
    const result = { run, policy: policy.version, stages: this.#scores, report: html }
    if (promoted?.why === undefined) return result
    return { ...result, promotion: { number: promoted.number, why: promoted.why } }
  }

  async #whileOpen<T>(workflowId: string, start: () => Promise<T>): Promise<T> {
    this.#openStage = workflowId
    try {
      return await start()
    } finally {
      this.#openStage = null
    }
  }

  #openChild(): string | null {
    return this.#openStage ?? this.#openEvaluation
  }

  #deliver(): Promise<boolean> {
    return steerOpen(this.#steeredChild(), () => this.#openChild(), this.#steering)
  }

  /** Evaluations of runs that began before this rule cannot be paused. */
  #steeredChild(): string | null {
    const evaluation = this.#openEvaluation
    return this.#openStage ?? (evaluation !== null && patched('steer-evaluations') ? evaluation : null)
  }

  /** A pause between stages holds here; inside a stage the stage holds. */
  async #hold(phase: string): Promise<void> {
    if (this.#steering.paused) this.#board.enter(`paused before ${phase}`)
    await whilePaused(this.#steering)
    this.#board.enter(phase)
  }

  #time(name: string): void {
    const now = Date.now()
    const { name: last, since } = this.#timer
    this.#durations[last] = (this.#durations[last] ?? 0) + (now - since) / 1000
    this.#timer = { name, since: now }
  }

  #details(run: string | null): string[] {
    const rows = this.#scores.map(
      ({ name, policy, passAt1, sem, tasks, attempts }) =>
        `| ${name} | ${policy} | ${showMean({ mean: passAt1, sem, tasks })} | ${tasks} | ${attempts} |`,
    )
    return [
      run === null ? '' : `What it waits for, since when and for whom: \`longhaul run blockers ${run}\``,
      // The UI does not render a table without rows.
      rows.length === 0
        ? ''
        : ['| stage | policy | pass@1 ± SEM | n | k |', '|---|---|---|---|---|', ...rows].join('\n'),
      this.#promotion,
    ]
  }
}
