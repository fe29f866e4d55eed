import {
  ApplicationFailure,
  condition,
  getExternalWorkflowHandle,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow'
import type { PauseMode, SteeredRun } from '../contracts/workflows.types.ts'
import { isId } from '../domain/shapes.ts'
import { receiveSignal } from './receive-signal.ts'
import type { RunBoard } from './run-board.ts'
import {
  pauseUpdate,
  requeuedSignal,
  requeueSignal,
  requeueUpdate,
  resumeUpdate,
  type PauseRequest,
  type RequeueAnswer,
  type RunControl,
  setLimitsUpdate,
  steerSignal,
  type SteerRequest,
  stopAfterIterationUpdate,
} from './run-control.ts'

const MOST_CONCURRENT = 10_000

export interface RootSteeringInput {
  board: RunBoard
  /** Sends the new state to the open child. */
  deliver: () => Promise<unknown>
  /** The open child that plays episodes, or a stage that knows it. Absent if the run has no tasks that could be requeued. */
  openChild?: () => string | null
  /** Whether the run has iterations after which it can end. @default false */
  hasIterations?: boolean
}

/**
 * The updates of a root, and the reports to it; called once the root is complete. Each update is validated before it is recorded, changes
 * nothing if the state already holds, and returns the resulting state. The signal `steer` requests the same of a run whose worker does not
 * answer.
 */
export function steerable({ board, deliver, openChild, hasIterations = false }: RootSteeringInput): void {
  board.receiveReports()
  const apply = async (change: Partial<RunControl>): Promise<SteeredRun> => {
    const changed = board.steer(change)
    // Delivered even if nothing changed, because the open child may have missed it.
    await deliver()
    return { ...board.progress(), changed, note: null }
  }
  setHandler(pauseUpdate, (request) => apply(pauseOf(modeOf(request) ?? 'soft')), {
    validator: (request) =>
      expect(modeOf(request) !== null, 'no argument, "soft", "hard" or {"mode": "soft" | "hard"}'),
  })
  setHandler(resumeUpdate, () => apply({ paused: false, hard: false }))
  setHandler(setLimitsUpdate, ({ concurrency }) => apply({ concurrency }), {
    validator: (request) =>
      expect(isConcurrency(request?.concurrency), `{"concurrency": integer from 1 to ${MOST_CONCURRENT}, or null}`),
  })
  if (hasIterations) {
    setHandler(stopAfterIterationUpdate, ({ iteration }) => apply({ stopAfterIteration: iteration }), {
      validator: (request) => expect(isIteration(request?.iteration), '{"iteration": integer ≥ 1}'),
    })
  }
  if (openChild !== undefined) acceptRequeues(board, openChild)
  setHandler(steerSignal, async (request) => {
    const change = changeOf(request, hasIterations)
    if (change !== null) await apply(change)
  })
}

function acceptRequeues(board: RunBoard, openChild: () => string | null): void {
  const answers = new Map<number, RequeueAnswer>()
  let asked = 0
  receiveSignal(requeuedSignal, (answer) => {
    answers.set(answer.id, answer)
  })
  const unchanged = (note: string): SteeredRun => ({ ...board.progress(), changed: false, note })
  setHandler(
    requeueUpdate,
    async ({ task }) => {
      const child = openChild()
      if (child === null) return unchanged('no episode is being played now')
      const id = (asked += 1)
      try {
        const order = { task, id, replyTo: workflowInfo().workflowId }
        await getExternalWorkflowHandle(child).signal(requeueSignal, order)
      } catch {
        return unchanged('the stage that was open has just ended')
      }
      // Below the ten seconds that a client waits for an update.
      await condition(() => answers.has(id), '8 seconds')
      const answer = answers.get(id)
      answers.delete(id)
      if (answer === undefined) return unchanged(`${child} was asked and has not answered yet`)
      if (answer.kind === 'refused') throw ApplicationFailure.nonRetryable(answer.note, 'Config.NotFound')
      return { ...board.progress(), changed: answer.kind === 'again', note: answer.note }
    },
    {
      validator: (request) =>
        // The child's answer repeats the task, and the server refuses a longer one.
        expect(isId(request?.task), '{"task": "id of a task"}'),
    },
  )
}

function pauseOf(mode: PauseMode): Partial<RunControl> {
  return { paused: true, hard: mode === 'hard' }
}

/** Returns null for anything that is not a mode. */
function modeOf(request: PauseRequest | null | undefined): PauseMode | null {
  const mode = typeof request === 'object' ? (request?.mode ?? 'soft') : (request ?? 'soft')
  return mode === 'soft' || mode === 'hard' ? mode : null
}

/** A signal cannot be refused, so an invalid request changes nothing. */
function changeOf(request: SteerRequest | undefined, hasIterations: boolean): Partial<RunControl> | null {
  switch (request?.do) {
    case 'pause':
      return modeOf(request.mode) === null ? null : pauseOf(request.mode)
    case 'resume':
      return { paused: false, hard: false }
    case 'setLimits':
      return isConcurrency(request.concurrency) ? { concurrency: request.concurrency } : null
    case 'stopAfterIteration':
      return hasIterations && isIteration(request.iteration) ? { stopAfterIteration: request.iteration } : null
    default:
      return null
  }
}

function isConcurrency(value: unknown): value is number | null {
  return value === null || (isIteration(value) && value <= MOST_CONCURRENT)
}

function isIteration(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 1
}

function expect(isFine: boolean, expected: string): void {
  if (!isFine) throw ApplicationFailure.nonRetryable(`Expected ${expected}`, 'Config.Invalid')
}
