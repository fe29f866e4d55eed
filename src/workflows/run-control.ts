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
import type { RunProgress } from '../contracts/workflows.types.ts'
import { failRun } from './failures.ts'

export interface RunControl {
  paused: boolean
  /** Reinforcement ends after this iteration of the open stage; null = as the recipe says. */
  stopAfterIteration: number | null
}

export const pauseUpdate = defineUpdate<RunProgress>('pause')
export const resumeUpdate = defineUpdate<RunProgress>('resume')
export const stopAfterIterationUpdate = defineUpdate<RunProgress, [{ iteration: number }]>('stopAfterIteration')
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
  enter(phase: string, run?: string): void
}

/** Answers the queries `progress` and `blockers` of a root that cannot be steered, in the shape that a training run answers them. */
export function watchable(run: string | null): RootProgress {
  const state: RunProgress = {
    run,
    phase: 'resolving the recipe',
    paused: false,
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
    enter: (phase, name) => {
      state.phase = phase
      state.run = name ?? state.run
      state.waitingFor = { what: phase, since: new Date().toISOString() }
    },
  }
}
