import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common'
import {
  CancellationScope,
  type ChildWorkflowOptions,
  ContinueAsNew,
  executeChild,
  getExternalWorkflowHandle,
  isCancellation,
  log,
  patched,
  sleep,
  startChild,
  workflowInfo,
} from '@temporalio/workflow'
import { control } from './activity-proxies.ts'
import { failRun } from './failures.ts'

/** Limit of the wait for a child whose parent was terminated. The child closes its sandboxes and records its episodes, which takes
 *  as long as a command, or until a worker is back. */
export const CLOSING_WAIT_MS = 60 * 60_000
/**
 * Limit of the wait for a child that plays on, because its parent was reset: the server leaves it alone, and what it plays is recorded.
 * As long as a pause may last; every wait of the child itself has its own, shorter limit.
 */
export const PLAYING_WAIT_MS = 30 * 24 * CLOSING_WAIT_MS
const FIRST_LOOK_MS = 5_000
/** Each check adds four events and a workflow task to the parent's history. A hundred children that check every five seconds would
 *  fill it in minutes. */
const LONGEST_LOOK_MS = 4 * 60_000
/** After the first hour a look comes this share of the wait after the one before, so that thirty days are fewer than eighty looks. */
const SHARE_OF_WAIT = 1 / 8

/**
 * Starts a child and waits for its result. If the execution of an earlier parent still has the id and plays the same episodes, waits
 * for its end first.
 * @param options.args a function is called at each start: operators may have steered the run during the wait
 * @param on.held called once if an earlier execution has the id
 * @param on.mayStart called after the wait; its promise, if it returns one, delays the next start
 * @param on.patienceMs limit of the wait for that execution, asked for after an hour. @default `patienceMs`
 */
export async function runChild<Input, Result>(
  workflow: (input: Input) => Promise<Result>,
  { args, ...others }: Omit<ChildWorkflowOptions, 'typeInfo'> & { workflowId: string; args: [Input] | (() => [Input]) },
  on: {
    started?: () => void
    held?: () => Promise<void>
    mayStart?: () => Promise<void> | undefined
    patienceMs?: () => number
  } = {},
): Promise<Result> {
  const { workflowId } = others
  const since = Date.now()
  for (let isFirst = true; ; isFirst = false) {
    try {
      const options = { ...others, args: typeof args === 'function' ? args() : args }
      const ended = cancelThoughReset(workflowId)
      try {
        if (on.started === undefined) return await executeChild(workflow, options)
        const child = await startChild(workflow, options)
        on.started()
        return await child.result()
      } finally {
        ended()
      }
    } catch (error) {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error
      const waitedMs = Date.now() - since
      const limitMs = waitedMs < CLOSING_WAIT_MS ? CLOSING_WAIT_MS : (on.patienceMs?.() ?? patienceMs())
      if (waitedMs >= limitMs) {
        const limit = limitMs === CLOSING_WAIT_MS ? 'an hour' : '30 days'
        throw failRun(
          'Run.StillClosing',
          `Expected the earlier execution of ${workflowId} to close within ${limit}. See what it waits for, or terminate it: temporal workflow terminate --workflow-id ${workflowId}`,
        )
      }
      if (isFirst) {
        log.warn('an earlier execution is still closing, waiting for it', { workflowId })
        await on.held?.()
      }
      const rarely = waitedMs < CLOSING_WAIT_MS ? LONGEST_LOOK_MS : waitedMs * SHARE_OF_WAIT
      try {
        await sleep(Math.min(Math.max(waitedMs, FIRST_LOOK_MS), rarely), {
          summary: `the earlier execution of ${workflowId} is closing`.slice(0, 200),
        })
        // Not awaited without a promise: another microtask could change the order of commands in older executions.
        const delay = on.mayStart?.()
        if (delay !== undefined) await delay
      } catch (cancelled) {
        if (isCancellation(cancelled) && patched('earlier-cancelled')) await cancelCurrent(workflowId)
        throw cancelled
      }
    }
  }
}

/**
 * A reset leaves children alone, so what this workflow finds may play for as long as it has work. After any other end of a parent its
 * children close.
 */
function patienceMs(): number {
  return mayHaveLeft() && patched('earlier-played') ? PLAYING_WAIT_MS : CLOSING_WAIT_MS
}

/**
 * Cancels the child by its id too when the current scope is cancelled. The SDK cancels the execution that it started. If a person has
 * reset the child, that one is closed, and its successor would play to its end, or wait for its parent forever.
 * @returns to be called when the child has ended
 */
function cancelThoughReset(workflowId: string): () => void {
  let isOpen = true
  CancellationScope.current().cancelRequested.catch(async () => {
    if (isOpen && patched('reset-children-cancelled')) await cancelCurrent(workflowId)
  })
  return () => {
    isOpen = false
  }
}

/** Reaches an execution that this workflow did not start. A reset parent no longer owns its child, which would play to its end, for days. */
async function cancelCurrent(workflowId: string): Promise<void> {
  try {
    await CancellationScope.nonCancellable(() => getExternalWorkflowHandle(workflowId).cancel())
  } catch (error) {
    log.info('a child was not cancelled by its id, it has just closed', { workflowId, error: String(error) })
  }
}

/** Types of workflows that start others. */
const PARENTS = new Set([
  'trainAgent',
  'evaluate',
  'gateSuite',
  'gateTasks',
  'rejectionFineTune',
  'reinforce',
  'rollout',
  'promptGroup',
])

/**
 * Plays a workflow. If it fails or is cancelled after a reset, cancels the children that its earlier execution has left. It starts each of
 * them again under its id when it comes to it, and until then it does not know them: a paused one never comes to them.
 */
export function endingWhatIsLeft<Result>(play: () => Promise<Result>): Promise<Result> {
  if (!mayHaveLeft()) return play()
  return play().catch(async (error: unknown) => {
    if (!(error instanceof ContinueAsNew) && patched('left-cancelled')) await cancelLeft()
    throw error
  })
}

/** An execution that continues a reset one has a predecessor, and cannot be told from any other. */
function mayHaveLeft(): boolean {
  const { workflowType, runId, originalExecutionRunId, continuedFromExecutionRunId } = workflowInfo()
  return PARENTS.has(workflowType) && (runId !== originalExecutionRunId || continuedFromExecutionRunId !== undefined)
}

async function cancelLeft(): Promise<void> {
  const { workflowId } = workflowInfo()
  try {
    await CancellationScope.nonCancellable(() => control.cancelLeft({ workflowId, before: Date.now() }))
  } catch (error) {
    log.warn('children of an earlier execution may play on', { workflowId, error: String(error) })
  }
}
