/** Scenarios for a real server and for the workflow driver. Durations are real time on the server: short, but long enough on a busy
 *  machine. */
import {
  ActivityCancellationType,
  ChildWorkflowCancellationType,
  ParentClosePolicy,
  WorkflowIdReusePolicy,
} from '@temporalio/workflow'
import { type ActivityCall, failureOf, neverEnds, takes, timesOut } from '../activity-script.ts'
import type { ChildEnd, OneActivityInput, ParentInput } from './workflows.ts'

/** One workflow execution, on either side. */
export interface PlayedWorkflow {
  signal(name: string): Promise<void>
  cancel(): Promise<void>
  terminate(): Promise<void>
  /** `result …`, or the message of the refusal. */
  update(name: string, arg: unknown): Promise<string>
}

/** The place where a scenario is played, with everything that it does to its workflows. */
export interface Stage {
  /** @param role the execution's role in its scenario. @default root */
  start(type: string, input: object, role?: string): Promise<PlayedWorkflow>
  /** A workflow by role, for children. */
  workflow(role: string): PlayedWorkflow
  /** Waits until this many attempts of the scenario's activity have begun. */
  begun(attempts: number): Promise<void>
  /** Waits for an event of this type in the history of the execution's newest run. */
  reached(role: string, event: string): Promise<void>
  /** Ends attempts with a stated duration: on a server they last until then. */
  release(): void
  /** Waits a second. */
  rest(): Promise<void>
}

export interface Scenario {
  play(stage: Stage): Promise<void>
  work?: (input: unknown, call: Pick<ActivityCall, 'attempt'>) => unknown
}

const QUICK = { initialInterval: 20, backoffCoefficient: 1 }
/** No worker polls it. */
export const NO_WORKER = 'no-worker'

/** Plays one activity to its end. */
const activity = (options: OneActivityInput['options'], work: Scenario['work']): Scenario => ({
  play: async (stage) =>
    void (await stage.start('oneActivity', { options: { startToCloseTimeout: '1m', ...options } })),
  work: work ?? (() => 'done'),
})

const failing = (code: Parameters<typeof failureOf>[0]) => () => {
  throw failureOf(code)
}

/** One activity that is cancelled once an attempt runs, or at once if none can begin. */
const cancelled = (
  options: OneActivityInput['options'],
  work: Scenario['work'],
  { attempts = 1, rests = false, ends = false }: { attempts?: number; rests?: boolean; ends?: boolean } = {},
): Scenario => ({
  async play(stage) {
    const root = await stage.start('oneActivity', {
      options: { startToCloseTimeout: '1m', ...options },
      cancels: true,
    })
    if (attempts > 0) await stage.begun(attempts)
    else await stage.reached('root', 'ACTIVITY_TASK_SCHEDULED')
    if (rests) await stage.rest()
    await root.signal('go')
    if (!ends) return
    await stage.reached('root', 'ACTIVITY_TASK_CANCEL_REQUESTED')
    stage.release()
  },
  work: work ?? (() => 'done'),
})

const CANCEL = ActivityCancellationType
const BEATS = { heartbeatTimeout: '30s' } as const

/** A parent and its child; `act` runs once the child has started. */
const family = (
  input: Pick<ParentInput, 'end' | 'next'> & { options?: ParentInput['options'] },
  act: (stage: Stage, root: PlayedWorkflow) => Promise<void> = async () => undefined,
): Scenario => ({
  async play(stage) {
    const root = await stage.start('parent', { ...input, options: input.options ?? {} })
    await act(stage, root)
  },
})

const childWaits = (stage: Stage) => stage.reached('child', 'TIMER_STARTED')

const leaves = (next: ParentInput['next'], parentClosePolicy: ParentClosePolicy): Scenario =>
  family({ end: 'waits', next, options: { parentClosePolicy } }, async (stage, root) => {
    await childWaits(stage)
    await stage.reached('root', 'TIMER_STARTED')
    await root.signal('go')
    if (parentClosePolicy !== ParentClosePolicy.ABANDON) return
    // A child that ends first would add an event to its parent. The execution that continues the parent ends at once.
    await stage.reached('root', 'WORKFLOW_EXECUTION_COMPLETED')
    await stage.workflow('child').signal('go')
  })

const cancelsChild = (cancellationType: ChildWorkflowCancellationType): Scenario =>
  family(
    { end: 'waits', next: 'cancels', options: { cancellationType, parentClosePolicy: ParentClosePolicy.ABANDON } },
    async (stage, root) => {
      await childWaits(stage)
      await root.signal('go')
      if (cancellationType === ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED) return
      await stage.reached('root', 'WORKFLOW_EXECUTION_COMPLETED')
      await stage.workflow('child').signal('go')
    },
  )

const again = (end: ChildEnd, workflowIdReusePolicy: WorkflowIdReusePolicy, together = false): Scenario => ({
  async play(stage) {
    await stage.start('twice', { end, together, options: { workflowIdReusePolicy } })
    if (!together) return
    await stage.reached('root', 'START_CHILD_WORKFLOW_EXECUTION_FAILED')
    await childWaits(stage)
    await stage.workflow('child').signal('go')
  },
})

export const SCENARIOS: Record<string, Scenario> = {
  'an activity succeeds': activity({}, undefined),
  'an activity fails twice and then succeeds': activity({ retry: QUICK }, (_, { attempt }) => {
    if (attempt < 3) throw failureOf('Model.Unavailable')
    return 'done'
  }),
  'an activity fails to its last attempt': activity(
    { retry: { ...QUICK, maximumAttempts: 3 } },
    failing('Model.Unavailable'),
  ),
  'an activity fails permanently': activity({ retry: QUICK }, failing('Config.Invalid')),
  'an activity fails with an error that its policy does not retry': activity(
    { retry: { ...QUICK, nonRetryableErrorTypes: ['Model.Busy'] } },
    failing('Model.Busy'),
  ),
  'an activity fails with an error of no kind': activity({ retry: { ...QUICK, maximumAttempts: 2 } }, () => {
    throw new TypeError('undefined is not a function')
  }),
  'attempts end by start-to-close': activity(
    { startToCloseTimeout: '1s', retry: { ...QUICK, maximumAttempts: 2 } },
    () => neverEnds(),
  ),
  'start-to-close is not retried where the policy says so': activity(
    { startToCloseTimeout: '1s', retry: { ...QUICK, nonRetryableErrorTypes: ['TemporalTimeout:StartToClose'] } },
    () => neverEnds(),
  ),
  'an attempt sends no heartbeat': activity(
    { heartbeatTimeout: '1500ms', retry: { ...QUICK, maximumAttempts: 1 } },
    () => timesOut('HEARTBEAT', { step: 7 }),
  ),
  'an attempt sends no heartbeat, the next one succeeds': activity(
    { heartbeatTimeout: '1500ms', retry: QUICK },
    (_, { attempt }) => (attempt === 1 ? timesOut('HEARTBEAT') : 'done'),
  ),
  'no worker comes within schedule-to-start': activity(
    { taskQueue: NO_WORKER, scheduleToStartTimeout: '1s' },
    undefined,
  ),
  'no worker comes within schedule-to-close': activity(
    { taskQueue: NO_WORKER, scheduleToCloseTimeout: '1s' },
    undefined,
  ),
  'no attempt fits into schedule-to-close any more': activity(
    { scheduleToCloseTimeout: '30s', retry: { initialInterval: '1s', backoffCoefficient: 60, maximumInterval: '1m' } },
    failing('Model.Unavailable'),
  ),
  'schedule-to-close ends an attempt': activity({ scheduleToCloseTimeout: '6s', retry: QUICK }, () => neverEnds()),
  'schedule-to-close ends a later attempt': activity(
    { scheduleToCloseTimeout: '8s', retry: QUICK },
    (_, { attempt }) => {
      if (attempt === 1) throw failureOf('Model.Unavailable')
      return neverEnds()
    },
  ),

  'a running activity is cancelled, the workflow waits for it': cancelled(
    { ...BEATS, cancellationType: CANCEL.WAIT_CANCELLATION_COMPLETED },
    () => neverEnds(),
  ),
  'a running activity is cancelled, the workflow does not wait': cancelled(
    { ...BEATS, cancellationType: CANCEL.TRY_CANCEL },
    () => neverEnds(),
  ),
  'a running activity is abandoned': cancelled({ ...BEATS, cancellationType: CANCEL.ABANDON }, () => neverEnds()),
  'a cancelled activity still succeeds': cancelled(
    { ...BEATS, cancellationType: CANCEL.WAIT_CANCELLATION_COMPLETED },
    () => takes(6_000, 'done', { ignoresCancel: true }),
    { ends: true },
  ),
  'a cancelled activity without heartbeats ends by itself': cancelled(
    { cancellationType: CANCEL.WAIT_CANCELLATION_COMPLETED },
    () => takes(6_000, 'done'),
    { ends: true },
  ),
  'an activity is cancelled before a worker has it': cancelled(
    { taskQueue: NO_WORKER, cancellationType: CANCEL.WAIT_CANCELLATION_COMPLETED },
    undefined,
    { attempts: 0 },
  ),
  'an activity is cancelled between two attempts': cancelled(
    { retry: { initialInterval: '1m' }, cancellationType: CANCEL.WAIT_CANCELLATION_COMPLETED },
    failing('Model.Unavailable'),
    { rests: true },
  ),
  'an activity fails after its cancel and is not tried again': cancelled(
    { retry: { initialInterval: '1m' }, cancellationType: CANCEL.WAIT_CANCELLATION_COMPLETED },
    () => takes(6_000, failing('Model.Unavailable')),
    { ends: true },
  ),

  'a workflow is cancelled and cleans up': {
    async play(stage) {
      const root = await stage.start('cleansUp', {})
      await stage.reached('root', 'TIMER_STARTED')
      await root.cancel()
    },
    work: () => 'clean',
  },
  'a workflow is terminated': {
    async play(stage) {
      const root = await stage.start('cleansUp', {})
      await stage.reached('root', 'TIMER_STARTED')
      await root.terminate()
    },
  },
  'a workflow fails': { play: async (stage) => void (await stage.start('fails', { nonRetryable: false })) },
  'a workflow fails permanently': { play: async (stage) => void (await stage.start('fails', { nonRetryable: true })) },
  'a workflow cancels itself': { play: async (stage) => void (await stage.start('cancelsItself', {})) },
  'markers, timers and conditions': { play: async (stage) => void (await stage.start('marks', {})) },

  'a child returns': family({ end: 'returns', next: 'awaits' }),
  'a child fails': family({ end: 'fails', next: 'awaits' }),
  'a child fails permanently': family({ end: 'fails-for-good', next: 'awaits' }),
  'a child continues as new': family({ end: 'continues', next: 'awaits' }),
  'a child is cancelled by another': family({ end: 'waits', next: 'awaits' }, async (stage) => {
    await childWaits(stage)
    await stage.workflow('child').cancel()
  }),
  'a child is terminated': family({ end: 'waits', next: 'awaits' }, async (stage) => {
    await childWaits(stage)
    await stage.workflow('child').terminate()
  }),
  'a child is cancelled, its parent waits': cancelsChild(ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED),
  'a child is cancelled, its parent does not wait': cancelsChild(ChildWorkflowCancellationType.TRY_CANCEL),
  'a child does not receive the cancel': cancelsChild(ChildWorkflowCancellationType.ABANDON),
  'a parent returns and its child is cancelled': leaves('returns', ParentClosePolicy.REQUEST_CANCEL),
  'a parent returns and its child is terminated': leaves('returns', ParentClosePolicy.TERMINATE),
  'a parent returns and its child continues': leaves('returns', ParentClosePolicy.ABANDON),
  'a parent fails and its child is cancelled': leaves('fails', ParentClosePolicy.REQUEST_CANCEL),
  'a parent continues as new and its child is cancelled': leaves('continues', ParentClosePolicy.REQUEST_CANCEL),
  'a parent continues as new and its child continues': leaves('continues', ParentClosePolicy.ABANDON),
  'a parent is cancelled with its child': family({ end: 'waits', next: 'awaits' }, async (stage, root) => {
    await childWaits(stage)
    await root.cancel()
  }),
  'a parent is terminated': family(
    { end: 'waits', next: 'awaits', options: { parentClosePolicy: ParentClosePolicy.REQUEST_CANCEL } },
    async (stage, root) => {
      await childWaits(stage)
      await root.terminate()
    },
  ),

  'a child starts twice at once': again('waits', WorkflowIdReusePolicy.ALLOW_DUPLICATE, true),
  'a child starts again after its end': again('returns', WorkflowIdReusePolicy.ALLOW_DUPLICATE),
  'a child may not start again': again('returns', WorkflowIdReusePolicy.REJECT_DUPLICATE),
  'a child that succeeded may not start again': again('returns', WorkflowIdReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY),
  'a child that failed may start again': again('fails', WorkflowIdReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY),

  'a workflow continues as new with its memo and its attributes': {
    play: async (stage) => void (await stage.start('counts', { left: 2 })),
  },
  'a workflow signals one that is open': {
    async play(stage) {
      await stage.start('child', { end: 'waits' }, 'other')
      await stage.reached('other', 'TIMER_STARTED')
      await stage.start('talks', { how: 'signal' })
    },
  },
  'a workflow signals one that does not exist': {
    play: async (stage) => void (await stage.start('talks', { how: 'signal' })),
  },
  'a workflow cancels one that is open': {
    async play(stage) {
      await stage.start('child', { end: 'waits' }, 'other')
      await stage.reached('other', 'TIMER_STARTED')
      await stage.start('talks', { how: 'cancel' })
    },
  },
  'a workflow cancels one that does not exist': {
    play: async (stage) => void (await stage.start('talks', { how: 'cancel' })),
  },
  'updates are answered, refused and fail': {
    async play(stage) {
      const root = await stage.start('listens', {})
      await stage.reached('root', 'TIMER_STARTED')
      const answers = [await root.update('add', 1), await root.update('add', -1), await root.update('add', 1000)]
      if (answers.join() !== 'result 1,negative,too much') throw new Error(`answers: ${answers.join()}`)
      await root.signal('go')
    },
  },
}
