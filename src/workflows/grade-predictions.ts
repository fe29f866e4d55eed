import {
  allHandlersFinished,
  CancellationScope,
  condition,
  continueAsNew,
  log,
  setCurrentDetails,
  setHandler,
  upsertMemo,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow'
import type { ClosedGrading } from '../contracts/activities.types.ts'
import { isFailureCode } from '../contracts/failure-codes.ts'
import type { GradingScore, ShortVerdict } from '../contracts/grading.types.ts'
import type {
  GradePredictionsInput,
  GradePredictionsResult,
  GradingProgress,
  OpenedGrading,
  RunProgress,
} from '../contracts/workflows.types.ts'
import { isLostToInfrastructure } from '../domain/grading-rules.ts'
import { artifacts, control, grading, slowControl } from './activity-proxies.ts'
import { decideAfter, failRun, withCode } from './failures.ts'
import { blockersQuery, pauseUpdate, progressQuery, resumeUpdate, type RunControl, whilePaused } from './run-control.ts'
import { rootIdentity } from './resolve-run.ts'
import { attributes } from './search-attributes.ts'
import { sideBySide } from './side-by-side.ts'

/** Patches in flight: hosts limit how many containers start at once, this limits pending activities. */
const OPEN_PATCHES = 16

/** Enough that one bad host is not mistaken for a dead engine. */
const HOPELESS_PATCHES = 12

/**
 * Grades patches that exist: `{"predictions": FILE, "suite": FILE}` anyone's predictions, `{"regrade": RUN}` those of a run again.
 * Activities: one for each patch, whose verdict is a record, so that a repetition grades nothing twice; no children. Updates
 * `pause` and `resume` stop and start new gradings; queries `progress`, `blockers`. Continues as new when suggested, about
 * every 800 patches. On cancel the open graders end and remove their containers.
 */
export async function gradePredictions(input: GradePredictionsInput = {}): Promise<GradePredictionsResult> {
  const job = new Grading(input)
  try {
    const opened = input.opened ?? (await open(input))
    job.begin(opened)
    const isDone = await job.gradeAll(opened)
    if (!isDone) return await continueAsNew<typeof gradePredictions>({ ...input, opened, ...job.state() })
    job.enter('counting verdicts')
    const closed = await artifacts.closeGrading({ run: opened.run })
    job.end(closed)
    return { run: opened.run, ...closed }
  } catch (error) {
    const named = withCode(error)
    job.fail(named)
    throw named
  } finally {
    await CancellationScope.nonCancellable(() => condition(allHandlersFinished, '1 minute'))
  }
}

function open(input: GradePredictionsInput): Promise<OpenedGrading> {
  const { opened: _opened, from: _from, counts: _counts, paused: _paused, ...request } = input
  return slowControl.openGrading({ ...request, ...rootIdentity() })
}

/** The state of one grading run as people see and steer it. */
class Grading {
  #opened: OpenedGrading | null
  #next: number
  readonly #counts: GradingProgress
  readonly #steering: RunControl
  #phase = 'reading predictions and tasks'
  #since = workflowInfo().runStartTime
  #pausedSince: Date | null
  #failure: string | null = null

  constructor({ opened, from, counts, paused }: GradePredictionsInput) {
    this.#opened = opened ?? null
    this.#next = from ?? 0
    this.#counts = { ...(counts ?? { resolved: 0, unresolved: 0, couldNotGrade: 0, failure: null }) }
    this.#steering = { paused: paused ?? false, stopAfterIteration: null }
    this.#pausedSince = this.#steering.paused ? workflowInfo().runStartTime : null
    setHandler(progressQuery, () => this.#progress())
    setHandler(blockersQuery, () => this.#waits())
    setHandler(pauseUpdate, () => this.#steer(true))
    setHandler(resumeUpdate, () => this.#steer(false))
  }

  begin(opened: OpenedGrading): void {
    this.#opened = opened
    upsertMemo({ run: opened.run })
    upsertSearchAttributes([{ key: attributes.run, value: opened.run }])
    this.enter(`grading ${opened.name}`)
  }

  state(): Required<Pick<GradePredictionsInput, 'from' | 'counts' | 'paused'>> {
    return { from: this.#next, counts: this.#counts, paused: this.#steering.paused }
  }

  /** @returns false where the history is long enough and patches are left */
  async gradeAll({ run, patches }: OpenedGrading): Promise<boolean> {
    const playNext = async (hasFailed: () => boolean): Promise<boolean> => {
      if (this.#next >= patches || workflowInfo().continueAsNewSuggested) return false
      try {
        await whilePaused(this.#steering)
        if (hasFailed() || this.#next >= patches) return false
        this.#count(await gradeOne(run, this.#next++))
        refuseHopeless(this.#counts)
      } finally {
        this.#show()
      }
      return true
    }
    await sideBySide({ lanes: Math.min(OPEN_PATCHES, Math.max(1, patches)), onFailure: 'finish', playNext })
    return this.#next >= patches
  }

  enter(phase: string): void {
    this.#phase = phase
    this.#since = new Date()
    this.#show()
  }

  end({ graded, official }: ClosedGrading): void {
    if (graded !== null) upsertSearchAttributes([{ key: attributes.resolvedRate, value: graded.mean }])
    this.#phase = 'done'
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
    this.#failure = error.message
    this.#show()
  }

  #count(verdict: ShortVerdict): void {
    if (verdict.kind === 'resolved') this.#counts.resolved += 1
    else if (verdict.kind === 'unresolved') this.#counts.unresolved += 1
    else this.#counts.couldNotGrade += 1
    if (isLostToInfrastructure(verdict)) this.#counts.failure = verdict.reason
  }

  #steer(paused: boolean): RunProgress {
    this.#steering.paused = paused
    this.#pausedSince = paused ? (this.#pausedSince ?? new Date()) : null
    this.#show()
    return this.#progress()
  }

  #doing(): string {
    if (this.#opened === null || this.#next === 0) return this.#phase
    const { resolved, unresolved, couldNotGrade } = this.#counts
    return `${this.#phase}: ${resolved + unresolved + couldNotGrade} of ${this.#opened.patches} patches`
  }

  #progress(): RunProgress {
    return {
      run: this.#opened?.run ?? null,
      phase: this.#phase === 'done' ? 'done' : this.#doing(),
      paused: this.#steering.paused,
      stopAfterIteration: null,
      scores: [],
      waitingFor: this.#phase === 'done' ? null : { what: this.#phase, since: this.#since.toISOString() },
    }
  }

  #waits() {
    const run = this.#opened?.run ?? null
    if (this.#phase === 'done') return { run, waits: [] }
    const { workflowId } = workflowInfo()
    const work = {
      on: { kind: 'workflow', name: workflowId } as const,
      doing: this.#doing(),
      since: this.#since.toISOString(),
      toDo: null,
    }
    if (this.#pausedSince === null) return { run, waits: [work] }
    const pause = {
      on: { kind: 'person', name: 'whoever paused it' } as const,
      doing: `paused, ${this.#doing()}`,
      since: this.#pausedSince.toISOString(),
      toDo: `longhaul run resume ${run ?? workflowId}`,
    }
    return { run, waits: [pause, work] }
  }

  #show(): void {
    const notes = [
      `**${this.#opened?.run ?? '…'}** · ${this.#phase} (since ${this.#since.toISOString()})`,
      this.#pausedSince === null
        ? ''
        : `**waits for a person**: paused since ${this.#pausedSince.toISOString()}; send the update \`resume\` to go on`,
      this.#failure === null ? '' : `**failed**: ${this.#failure}`,
      table(this.#counts, this.#opened),
      this.#counts.failure === null ? '' : `The last one kept from a verdict met ${this.#counts.failure}.`,
    ]
    setCurrentDetails(notes.filter((note) => note !== '').join('\n\n'))
  }
}

/** A patch that infrastructure defeats has no verdict; the run goes on, and one that is started again tries it again. */
async function gradeOne(run: string, index: number): Promise<ShortVerdict> {
  try {
    return await grading.gradePatch.executeWithOptions({ summary: `patch ${index}` }, [{ run, index }])
  } catch (error) {
    const decision = decideAfter(error)
    if (decision.kind === 'cancelled') throw error
    if (decision.kind === 'fail-run') throw failRun(decision.code, decision.message)
    return control.recordUngradedPatch({ run, index, failure: decision.code })
  }
}

/** Where not one of the first is graded, something all of them need is missing: to go on would only use up the attempts. */
function refuseHopeless({ resolved, unresolved, couldNotGrade, failure }: GradingProgress): void {
  if (failure === null || resolved + unresolved > 0 || couldNotGrade < HOPELESS_PATCHES) return
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
  return `**${mean.toFixed(3)} ± ${sem.toFixed(3)}** (n = ${tasks}${bounds})`
}
