import {
  allHandlersFinished,
  CancellationScope,
  condition,
  ContinueAsNew,
  continueAsNew,
  log,
  setCurrentDetails,
  upsertMemo,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow'
import { showMean } from '../domain/statistics/statistics.ts'
import type { ClosedGrading } from '../contracts/activities.types.ts'
import { isFailureCode } from '../contracts/failure-codes.ts'
import type { GradingScore, ShortVerdict } from '../contracts/grading.types.ts'
import type {
  GradePredictionsInput,
  GradePredictionsResult,
  GradingProgress,
  OpenedGrading,
  WorkCount,
} from '../contracts/workflows.types.ts'
import { isLostToInfrastructure } from '../domain/grading-rules.ts'
import { artifacts, control, grading, slowControl } from './activity-proxies.ts'
import { decideAfter, failRun, withCode } from './failures.ts'
import { HistoryPage } from './history-page.ts'
import { RunBoard } from './run-board.ts'
import { steerable } from './root-steering.ts'
import { type RunControl, whilePaused } from './run-control.ts'
import { rootIdentity } from './resolve-run.ts'
import { attributes } from './search-attributes.ts'
import { requireResult } from './require-result.ts'
import { runConcurrently } from './run-concurrently.ts'

/** Limits pending activities. Hosts separately limit how many containers start concurrently. */
const OPEN_PATCHES = 16

/** Per patch: its grading and, if that fails, the record of the failure; each has three events and a workflow task. */
const EVENTS_A_PATCH = 12

/** Large enough that one bad host is not mistaken for a dead engine. */
const ABORT_AFTER_ALL_UNGRADED = 12

/**
 * Grades existing patches: `{"predictions": FILE, "suite": FILE}` grades new predictions, `{"regrade": RUN}` grades those of a run
 * again. Activities: one for each patch, whose verdict is a record, so that a repetition grades nothing twice; no children. Updates
 * `pause`, `resume` and `setLimits` steer new gradings; queries `progress`, `failures`, `blockers`, `config`. Continues as new before
 * its history has 2,000 events, about every 280 patches. On cancel the open graders end and remove their containers.
 */
export async function gradePredictions(input: GradePredictionsInput = {}): Promise<GradePredictionsResult> {
  const job = new Grading(input)
  try {
    const opened = input.opened ?? requireResult('openGrading', await open(input))
    job.begin(opened)
    const isDone = await job.gradeAll(opened)
    if (!isDone) return await continueAsNew<typeof gradePredictions>({ ...input, opened, ...job.state() })
    job.enter('counting verdicts')
    const closed = requireResult('closeGrading', await artifacts.closeGrading({ run: opened.run }))
    job.end(closed)
    return { run: opened.run, ...closed }
  } catch (error) {
    const named = withCode(error)
    if (!(named instanceof ContinueAsNew)) job.fail(named)
    throw named
  } finally {
    await CancellationScope.nonCancellable(() => condition(allHandlersFinished, '1 minute'))
  }
}

function open(input: GradePredictionsInput): Promise<OpenedGrading> {
  const {
    opened: _opened,
    from: _from,
    counts: _counts,
    paused: _paused,
    concurrency: _concurrency,
    ...request
  } = input
  return slowControl.openGrading({ ...request, ...rootIdentity() })
}

/** One grading run, and its steering by operators. */
class Grading {
  #opened: OpenedGrading | null
  #next: number
  readonly #counts: GradingProgress
  readonly #steering: RunControl
  readonly #board: RunBoard
  #widen: () => void = () => undefined

  constructor({ opened, from, counts, paused, concurrency }: GradePredictionsInput) {
    this.#opened = opened ?? null
    this.#next = from ?? 0
    this.#counts = { ...(counts ?? { resolved: 0, unresolved: 0, couldNotGrade: 0, failure: null }) }
    this.#steering = { paused: paused ?? false, stopAfterIteration: null, concurrency: concurrency ?? null }
    this.#board = new RunBoard({
      steering: this.#steering,
      phase: 'reading predictions and tasks',
      since: workflowInfo().runStartTime,
      run: opened?.run ?? null,
      doing: (phase) => this.#doing(phase),
      work: () => this.#work(),
      details: () => this.#details(),
    })
    steerable({ board: this.#board, deliver: async () => this.#widen() })
  }

  begin(opened: OpenedGrading): void {
    this.#opened = opened
    this.#board.name(opened.run)
    upsertMemo({ run: opened.run })
    upsertSearchAttributes([{ key: attributes.run, value: opened.run }])
    this.enter(`grading ${opened.name}`)
  }

  state(): Required<Pick<GradePredictionsInput, 'from' | 'counts' | 'paused' | 'concurrency'>> {
    const { paused, concurrency = null } = this.#steering
    return { from: this.#next, counts: this.#counts, paused, concurrency }
  }

  /** @returns false if the history is full and patches are left */
  async gradeAll({ run, patches }: OpenedGrading): Promise<boolean> {
    const page = new HistoryPage(EVENTS_A_PATCH)
    const gradeNext = async (hasFailed: () => boolean): Promise<boolean> => {
      try {
        await whilePaused(this.#steering)
        if (hasFailed() || this.#next >= patches) return false
        this.#count(await gradeOne(run, this.#next++))
        refuseHopeless(this.#counts)
      } finally {
        this.#board.show()
      }
      return true
    }
    const runNext = async (hasFailed: () => boolean): Promise<boolean> =>
      this.#next < patches && !page.isFull() && page.hold(() => gradeNext(hasFailed))
    await runConcurrently({
      concurrency: () => Math.min(this.#steering.concurrency ?? OPEN_PATCHES, Math.max(1, patches)),
      onFailure: 'finish',
      onStart: (widen) => {
        this.#widen = widen
      },
      runNext,
    })
    return this.#next >= patches
  }

  enter(phase: string): void {
    this.#board.enter(phase)
  }

  end({ graded, official }: ClosedGrading): void {
    if (graded !== null) upsertSearchAttributes([{ key: attributes.resolvedRate, value: graded.mean }])
    this.enter('done')
    log.info('grading done', { resolved: this.#counts.resolved, couldNotGrade: this.#counts.couldNotGrade })
    setCurrentDetails(
      [
        `**${this.#opened?.run ?? '…'}** · ${this.#opened?.name ?? ''}`,
        table(this.#counts, this.#opened),
        `resolved, of graded: ${describeScore(graded)}; as official harnesses count: ${describeScore(official)}`,
      ].join('\n\n'),
    )
  }

  fail(error: Error): void {
    this.#board.fail(error.message)
  }

  #count(verdict: ShortVerdict): void {
    if (verdict.kind === 'resolved') this.#counts.resolved += 1
    else if (verdict.kind === 'unresolved') this.#counts.unresolved += 1
    else this.#counts.couldNotGrade += 1
    if (isLostToInfrastructure(verdict)) this.#counts.failure = verdict.reason
  }

  #doing(phase: string): string {
    const work = this.#work()
    return work === null || this.#next === 0 ? phase : `${phase}: ${work.done} of ${work.total} patches`
  }

  #work(): WorkCount | null {
    if (this.#opened === null) return null
    const { resolved, unresolved, couldNotGrade: failed } = this.#counts
    return { unit: 'patches', done: resolved + unresolved + failed, total: this.#opened.patches, failed }
  }

  #details(): string[] {
    const { failure } = this.#counts
    return [
      table(this.#counts, this.#opened),
      failure === null ? '' : `The last patch without a verdict failed with ${failure}.`,
    ]
  }
}

/** A patch whose grading fails because of infrastructure has no verdict. The run continues, and a restarted run tries it again. */
async function gradeOne(run: string, index: number): Promise<ShortVerdict> {
  try {
    const graded = await grading.gradePatch.executeWithOptions({ summary: `patch ${index}` }, [{ run, index }])
    return requireResult('gradePatch', graded)
  } catch (error) {
    const decision = decideAfter(error)
    if (decision.kind === 'cancelled') throw error
    if (decision.kind === 'fail-run') throw failRun(decision.code, decision.message)
    const ungraded = await control.recordUngradedPatch({ run, index, failure: decision.code })
    return requireResult('recordUngradedPatch', ungraded)
  }
}

/** If none of the first patches can be graded, all of them lack something, and continuing would only use up the attempts. */
function refuseHopeless({ resolved, unresolved, couldNotGrade, failure }: GradingProgress): void {
  if (failure === null || resolved + unresolved > 0 || couldNotGrade < ABORT_AFTER_ALL_UNGRADED) return
  const code = isFailureCode(failure) ? failure : 'Sandbox.ImageMissing'
  throw failRun(code, `None of the first ${couldNotGrade} patches could be graded; the last one met ${failure}`)
}

function table(counts: GradingProgress, opened: OpenedGrading | null): string {
  const { resolved, unresolved, couldNotGrade } = counts
  const done = resolved + unresolved + couldNotGrade
  return [
    '| patches | resolved | unresolved | could not grade |',
    '|---|---|---|---|',
    `| ${done} / ${opened?.patches ?? '…'} | ${resolved} | ${unresolved} | ${couldNotGrade} |`,
  ].join('\n')
}

function describeScore(score: GradingScore | null): string {
  if (score === null) return '–'
  const { mean, sem, interval, tasks } = score
  const bounds = interval === null ? '' : `, 95 % ${interval.low.toFixed(3)} to ${interval.high.toFixed(3)}`
  return `**${showMean({ mean, sem, tasks })}** (n = ${tasks}${bounds})`
}
