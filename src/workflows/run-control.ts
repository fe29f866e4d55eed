/** How operators steer and watch a run: updates and queries on the root, one signal from the root down to the open stage. */
import {
  condition,
  defineQuery,
  defineSignal,
  defineUpdate,
  getExternalWorkflowHandle,
  log,
  setHandler,
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

export interface RunControl {
  paused: boolean
  /** A pause that episodes keep too. Absent in signals of earlier versions. */
  hard?: boolean
  /** Reinforcement ends after this iteration of the open stage; null = as the recipe says. */
  stopAfterIteration: number | null
  /** Tasks under way at once; null or absent = as the recipe says. */
  concurrency?: number | null
}

export const pauseUpdate = defineUpdate<SteeredRun, [request: PauseRequest | null | undefined]>('pause')
export const resumeUpdate = defineUpdate<SteeredRun>('resume')
export const setLimitsUpdate = defineUpdate<SteeredRun, [LimitsRequest]>('setLimits')
export const requeueUpdate = defineUpdate<SteeredRun, [RequeueRequest]>('requeue')
export const stopAfterIterationUpdate = defineUpdate<SteeredRun, [{ iteration: number }]>('stopAfterIteration')

/** `soft`, `hard` or an object: the form of the Temporal UI takes any of them. */
export type PauseRequest = PauseMode | { mode?: PauseMode }
export interface LimitsRequest {
  concurrency: number | null
}
export interface RequeueRequest {
  task: string
}

/** What a client asks for while no worker answers: recorded by the server at once, done when a worker is back. */
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
/** What the workflow itself waits for; its activities and children answer for themselves. */
export const blockersQuery = defineQuery<WorkflowWaits>('blockers')
/** Internal: from parent to child by workflow id without run id, so that it survives continue-as-new. */
export const controlSignal = defineSignal<[RunControl]>('control')

/** Internal: a stage tells the run that it holds, and why; the run's `resume` lets it go on. */
export const alarmSignal = defineSignal<[RunAlarm]>('alarm')

export interface RunAlarm {
  stage: string
  iteration: number
  why: string
}

/** Internal: from a rollout to its root, now and then. */
export const reportSignal = defineSignal<[RolloutReport]>('report')

/** Internal: from the root down to the open rollout, which answers the root by `requeued`. */
export const requeueSignal = defineSignal<[RequeueOrder]>('requeue')
export const requeuedSignal = defineSignal<[RequeueAnswer]>('requeued')

export interface RequeueOrder extends RequeueRequest {
  /** Of the request, unique in its root. */
  id: number
  replyTo: string
}

export interface RequeueAnswer {
  id: number
  /** `again`: it is or will be played again; `refused`: no such task in the open rollout. */
  kind: 'again' | 'unchanged' | 'refused'
  note: string
}

/** Internal: from a part of a rollout to the next one: groups that it had still open have ended. */
export const handedSignal = defineSignal<[{ groups: PromptGroupResult[] }]>('handed')

/** Internal: to a part whose own part before was reset and will hand nothing on: it ends the groups that it has, and then itself. */
export const supersededSignal = defineSignal('superseded')

export async function answerRequeue({ id, replyTo }: RequeueOrder, answer: Omit<RequeueAnswer, 'id'>): Promise<void> {
  try {
    await getExternalWorkflowHandle(replyTo).signal(requeuedSignal, { id, ...answer })
  } catch (error) {
    log.info('answer to a requeue not delivered', { replyTo, error: String(error) })
  }
}

/** A stage hands the order on to its open rollout. */
export async function passOnRequeue(childId: string | null, order: RequeueOrder): Promise<void> {
  const nothingOpen = { kind: 'unchanged', note: 'no episode is being played now' } as const
  if (childId === null) return answerRequeue(order, nothingOpen)
  try {
    await getExternalWorkflowHandle(childId).signal(requeueSignal, order)
  } catch {
    await answerRequeue(order, nothingOpen)
  }
}

/** Pauses this stage and says so to the run that it belongs to. */
export async function pauseOnAlarm(control: RunControl, alarm: RunAlarm): Promise<void> {
  control.paused = true
  const { parent } = workflowInfo()
  log.warn('an alarm holds the run', { ...alarm })
  if (parent === undefined) return
  try {
    await getExternalWorkflowHandle(parent.workflowId).signal(alarmSignal, alarm)
  } catch (error) {
    // The run does not know of the pause and could not resume the stage: it goes on, and the report has the alarm.
    control.paused = false
    log.warn('alarm not delivered to the run', { error: String(error) })
  }
}

/** What a rollout begins with, of what operators and its root have said so far. */
export function childControl(
  { board }: ResolvedRun,
  { paused, concurrency = null }: RunControl,
): Pick<RolloutInput, 'paused' | 'concurrency' | 'board'> {
  return { paused, concurrency, ...(board === undefined ? {} : { board }) }
}

/** A child that has just closed needs no signal: no error. */
export async function passOn(childId: string | null, control: RunControl): Promise<void> {
  if (childId === null) return
  try {
    await getExternalWorkflowHandle(childId).signal(controlSignal, control)
  } catch (error) {
    log.info('control signal not delivered', { childId, error: String(error) })
  }
}

/** A run that stays paused for thirty days fails with that reason. */
export async function whilePaused(control: RunControl): Promise<void> {
  if (!control.paused) return
  if (await condition(() => !control.paused, '30 days')) return
  throw failRun('Run.PausedTooLong', 'Paused for 30 days and not resumed. Start it again under its name to go on')
}

export interface RootProgress {
  enter(phase: string, run?: string, work?: WorkCount): void
}

/** Answers the queries `progress` and `blockers` of a root that cannot be steered, in the shape that a training run answers them. */
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
