/** How operators steer and watch a run: updates and queries on the root, and one signal from the root down to the open stage. */
import {
  condition,
  defineQuery,
  defineSignal,
  defineUpdate,
  getExternalWorkflowHandle,
  log,
  patched,
  setHandler,
  sleep,
  workflowInfo,
} from '@temporalio/workflow'
import type { WorkflowWaits } from '../contracts/waits.types.ts'
import type {
  PauseMode,
  PromptGroupResult,
  ResolvedRun,
  RolloutInput,
  RolloutReport,
  RunConfig,
  RunFailures,
  RunProgress,
  SteeredRun,
  WorkCount,
} from '../contracts/workflows.types.ts'
import { failRun } from './failures.ts'
import { PLAYING_WAIT_MS } from './run-child.ts'
import { isStarting } from './start-interceptors.ts'

export interface RunControl {
  paused: boolean
  /** The pause also holds episodes. Absent in signals of earlier versions. */
  hard?: boolean
  /** Reinforcement ends after this iteration of the open stage; null follows the recipe. */
  stopAfterIteration: number | null
  /** Maximum number of concurrent tasks; null or absent follows the recipe. */
  concurrency?: number | null
}

export const pauseUpdate = defineUpdate<SteeredRun, [request: PauseRequest | null | undefined]>('pause')
export const resumeUpdate = defineUpdate<SteeredRun>('resume')
export const setLimitsUpdate = defineUpdate<SteeredRun, [LimitsRequest]>('setLimits')
export const requeueUpdate = defineUpdate<SteeredRun, [RequeueRequest]>('requeue')
export const stopAfterIterationUpdate = defineUpdate<SteeredRun, [{ iteration: number }]>('stopAfterIteration')

/** `soft`, `hard` or an object, because the form of the Temporal UI sends any of them. */
export type PauseRequest = PauseMode | { mode?: PauseMode }
export interface LimitsRequest {
  concurrency: number | null
}
export interface RequeueRequest {
  task: string
}

/** A client's request while no worker answers. The server records it at once, and a worker carries it out when it is back. */
export const steerSignal = defineSignal<[SteerRequest]>('steer')
export type SteerRequest =
  | { do: 'pause'; mode: PauseMode }
  | { do: 'resume' }
  | { do: 'setLimits'; concurrency: number | null }
  | { do: 'stopAfterIteration'; iteration: number }

export const configQuery = defineQuery<RunConfig>('config')
export const failuresQuery = defineQuery<RunFailures>('failures')
export const rolloutQuery = defineQuery<RolloutReport>('progress')
export const gateQuery = defineQuery<WorkCount>('progress')
export const progressQuery = defineQuery<RunProgress>('progress')
/** The waits of the workflow itself; its activities and children report their own. */
export const blockersQuery = defineQuery<WorkflowWaits>('blockers')
/** Internal: sent from parent to child by workflow id without run id, so that it survives continue-as-new. */
export const controlSignal = defineSignal<[RunControl], 'control'>('control')

/** Internal: a stage reports to the run that it is paused, and why. The run's `resume` continues it. */
export const alarmSignal = defineSignal<[RunAlarm], 'alarm'>('alarm')

export interface RunAlarm {
  stage: string
  iteration: number
  why: string
}

/** Internal: sent from a rollout to its root from time to time. */
export const reportSignal = defineSignal<[RolloutReport], 'report'>('report')

/** Internal: sent from the root down to the open rollout, which answers the root with `requeued`. */
export const requeueSignal = defineSignal<[RequeueOrder], 'requeue'>('requeue')
export const requeuedSignal = defineSignal<[RequeueAnswer], 'requeued'>('requeued')

export interface RequeueOrder extends RequeueRequest {
  /** Id of the request, unique in its root. */
  id: number
  replyTo: string
}

export interface RequeueAnswer {
  id: number
  /** `again`: it is or will be played again; `refused`: the open rollout has no such task. */
  kind: 'again' | 'unchanged' | 'refused'
  note: string
}

/** Internal: sent from a part of a rollout to the next one when groups that it still had open have ended. */
export const handedSignal = defineSignal<[{ groups: PromptGroupResult[] }], 'handed'>('handed')

/** Internal: sent from a part that waits for such groups to the previous one, with the number of groups that have arrived. */
export const handAgainSignal = defineSignal<[HandAgain], 'handAgain'>('handAgain')

export interface HandAgain {
  arrived: number
}

/** Internal: sent to a part whose previous part was reset and will hand nothing on. It ends its groups and then itself. */
export const supersededSignal = defineSignal('superseded')

export async function answerRequeue({ id, replyTo }: RequeueOrder, answer: Omit<RequeueAnswer, 'id'>): Promise<void> {
  try {
    await getExternalWorkflowHandle(replyTo).signal(requeuedSignal, { id, ...answer })
  } catch (error) {
    log.info('answer to a requeue not delivered', { replyTo, error: String(error) })
  }
}

/** A stage forwards the order to its open rollout. */
export async function passOnRequeue(childId: string | null, order: RequeueOrder): Promise<void> {
  const nothingOpen = { kind: 'unchanged', note: 'no episode is being played now' } as const
  if (childId === null) return answerRequeue(order, nothingOpen)
  try {
    await getExternalWorkflowHandle(childId).signal(requeueSignal, order)
  } catch {
    await answerRequeue(order, nothingOpen)
  }
}

/** Pauses this stage and reports it to the run that it belongs to. */
export async function pauseOnAlarm(control: RunControl, alarm: RunAlarm): Promise<void> {
  control.paused = true
  const { parent } = workflowInfo()
  log.warn('an alarm paused the run', { ...alarm })
  if (parent === undefined) return
  try {
    await getExternalWorkflowHandle(parent.workflowId).signal(alarmSignal, alarm)
  } catch (error) {
    // The run does not know of the pause and could not resume the stage, so the stage continues. The report contains the alarm.
    control.paused = false
    log.warn('alarm not delivered to the run', { error: String(error) })
  }
}

/** Initial control of a rollout: the current state of what operators and its root have requested. */
export function childControl(
  { board }: ResolvedRun,
  { paused, concurrency = null }: RunControl,
): Pick<RolloutInput, 'paused' | 'concurrency' | 'board'> {
  return { paused, concurrency, ...(board === undefined ? {} : { board }) }
}

/** What the planner of an iteration compares with the run's records. */
export function provenOf({ disjoint }: ResolvedRun): { disjoint?: true } {
  return disjoint === true ? { disjoint } : {}
}

/**
 * A child that has just closed needs no signal, so this is not an error.
 * @returns false if no execution has the id
 */
export async function passOn(childId: string | null, control: RunControl): Promise<boolean> {
  if (childId === null) return true
  try {
    await getExternalWorkflowHandle(childId).signal(controlSignal, control)
    return true
  } catch (error) {
    log.info('control signal not delivered', { childId, error: String(error) })
    return false
  }
}

/** The server starts a thousand children within a minute. */
const FIRST_REPETITION_MS = 1_000
const LAST_REPETITION_MS = 128_000

/**
 * Passes an order on to an open child. The server may still have to start it, and until then it has no execution that an order reaches;
 * its input names no pause, so it would play through one.
 * @param order the newest one at each attempt
 */
export async function passOnToOpen(childId: string, isOpen: () => boolean, order: () => RunControl): Promise<void> {
  if (!(await passOn(childId, order()))) await passOnLater(childId, isOpen, order)
}

/**
 * The same for the child that a run or stage has open, if any. Its input was made when its start was requested, so what operators ask
 * for until the server has started it would be lost.
 * @param openChild the child that is open at each further attempt
 * @param control changes meanwhile; each attempt sends its newest state
 * @returns the first attempt alone: an operator's request does not wait for a start
 */
export function steerOpen(
  childId: string | null,
  openChild: () => string | null,
  control: RunControl,
): Promise<boolean> {
  const delivery = passOn(childId, control)
  void delivery.then((isDelivered) => {
    if (childId === null || isDelivered) return
    void passOnLater(
      childId,
      () => openChild() === childId,
      () => control,
    )
  })
  return delivery
}

async function passOnLater(childId: string, isOpen: () => boolean, order: () => RunControl): Promise<void> {
  for (let waitMs = FIRST_REPETITION_MS; isOpen(); ) {
    if (!patched('passed-on-again')) return
    try {
      // As long as the start takes: the server ends it, or the cancellation of this workflow does.
      if (isStarting(childId) && patched('passed-on-at-start')) await condition(() => !isStarting(childId), '1 day')
      else {
        if (waitMs > LAST_REPETITION_MS) return
        await sleep(waitMs, { summary: `the start of ${childId}`.slice(0, 200) })
        waitMs *= 2
      }
    } catch {
      // An exception in the handler of a signal would close a cancelled workflow before its children.
      return
    }
    if (!isOpen() || (await passOn(childId, order()))) return
  }
}

/**
 * For `runChild`: an earlier execution has the child's id and plays on, because a reset of a parent leaves its children alone. It may be
 * paused, and no one else would resume it.
 */
export function steerEarlier(
  childId: string,
  control: RunControl,
): {
  held: () => Promise<void>
  patienceMs: () => number
} {
  return {
    patienceMs: () => PLAYING_WAIT_MS,
    held: async () => {
      if (patched('earlier-steered')) await passOn(childId, control)
    },
  }
}

/**
 * The same for a child whose input names no pause: the run has to go on before it is started.
 * @param order what the child would be told now
 */
export function holdEarlier(
  childId: string,
  control: RunControl,
  order: () => RunControl,
): {
  held: () => Promise<void>
  mayStart: () => Promise<void> | undefined
} {
  return {
    held: async () => {
      if (patched('earlier-held')) await passOn(childId, order())
    },
    mayStart: () => (control.paused && patched('earlier-held') ? whilePaused(control) : undefined),
  }
}

/** Waits until the run is resumed. A pause of thirty days fails the run. */
export async function whilePaused(control: RunControl): Promise<void> {
  if (!control.paused) return
  if (await condition(() => !control.paused, '30 days')) return
  throw failRun('Run.PausedTooLong', 'Paused for 30 days and not resumed. Start it again under its name to continue')
}

export interface RootProgress {
  enter(phase: string, run?: string, work?: WorkCount): void
}

/** Answers the queries `progress` and `blockers` of a root that cannot be steered, in the same shape as a training run. */
export function watchable(run: string | null): RootProgress {
  const state: RunProgress = {
    run,
    phase: 'resolving the recipe',
    paused: false,
    pause: null,
    limits: { concurrency: null },
    rollout: null,
    stopAfterIteration: null,
    scores: [],
    waitingFor: null,
  }
  setHandler(progressQuery, () => state)
  setHandler(blockersQuery, () => {
    const { waitingFor } = state
    if (waitingFor === null || state.phase === 'done') return { run: state.run, waits: [] }
    const on = { kind: 'workflow', name: workflowInfo().workflowId } as const
    return { run: state.run, waits: [{ on, doing: waitingFor.what, since: waitingFor.since, toDo: null }] }
  })
  return {
    enter: (phase, name, work) => {
      state.phase = phase
      state.run = name ?? state.run
      state.waitingFor = { what: phase, since: new Date().toISOString() }
      if (work === undefined) delete state.work
      else state.work = work
    },
  }
}
