/** Runs on a clock: schedules as code, created or updated by the same call, with the difference said. */
import {
  ScheduleAlreadyRunning,
  type ScheduleDescription,
  ScheduleNotFoundError,
  type WorkflowService,
} from '@temporalio/client'
import { LonghaulError } from '../contracts/errors.ts'
import { QUEUES, WATCH_TYPE } from '../contracts/workflow-ids.ts'
import { CALL_TIMEOUT_MS, type LonghaulConnection } from './connect.ts'
import { grpcStatus } from '../platform/temporal-reach.ts'
import {
  differences,
  optionsOf,
  readSettings,
  type ScheduleRequest,
  type ScheduleSettings,
  settingsOf,
} from './schedule-settings.ts'

export interface ScheduleInput extends ScheduleRequest {
  connection: LonghaulConnection
}

export interface ScheduleChange {
  id: string
  kind: 'created' | 'updated' | 'unchanged'
  settings: ScheduleSettings
  /** `cron: 0 2 * * * → 0 3 * * *`; empty unless updated. */
  diff: string[]
  /** Empty where nothing was made because only the difference was asked for. */
  nextRuns: Date[]
}

/** Makes the schedule, or changes an existing one to these settings. A paused schedule stays paused. @param input.dryRun only say what would change */
export async function createSchedule(input: ScheduleInput & { dryRun?: boolean }): Promise<ScheduleChange> {
  const { connection, id, paused, dryRun = false } = input
  const settings = settingsOf(input)
  return called(connection, async () => {
    const before = await currentSettings(connection, id)
    const diff = before === null ? [] : changesOf(before, settings, paused)
    const kind = before === null ? 'created' : diff.length === 0 ? 'unchanged' : 'updated'
    if (dryRun) return { id, kind, settings, diff, nextRuns: [] }
    if (kind === 'created') await create(input, settings)
    if (kind === 'updated') await change(input, settings)
    return { id, kind, settings, diff, nextRuns: await nextRuns(connection, id) }
  })
}

function changesOf(before: KnownSchedule, settings: ScheduleSettings, paused: boolean | undefined): string[] {
  const diff = differences(before.settings, settings)
  return paused === undefined || paused === before.paused ? diff : [...diff, `paused: ${before.paused} → ${paused}`]
}

async function change(input: ScheduleInput, settings: ScheduleSettings): Promise<void> {
  const { spec, action, policies } = optionsOf(input, settings)
  await input.connection.client.schedule.getHandle(input.id).update((previous) => ({
    spec,
    action,
    policies: policies ?? {},
    state: { paused: input.paused ?? previous.state.paused, note: JSON.stringify(settings) },
  }))
}

/** Starts nothing until it is resumed; a run that is open goes on. @returns false where it was so already */
export function pauseSchedule({
  connection,
  id,
  paused,
}: {
  connection: LonghaulConnection
  id: string
  paused: boolean
}): Promise<boolean> {
  return called(connection, async () => {
    const handle = connection.client.schedule.getHandle(id)
    const { state } = ours(await handle.describe())
    if (state.paused === paused) return false
    // Not by the server's own pause, which replaces the note: the note says what the schedule was made from.
    await handle.update((previous) => ({ ...previous, state: { ...previous.state, paused } }))
    return true
  })
}

/** Starts what was due between two times and did not start, one run after another. @throws LonghaulError `Config.Invalid` */
export async function backfillSchedule({
  connection,
  id,
  from,
  to,
}: {
  connection: LonghaulConnection
  id: string
  from: Date
  to: Date
}): Promise<Date[]> {
  requirePast({ from, to })
  return called(connection, async () => {
    ours(await connection.client.schedule.getHandle(id).describe())
    const due = await matchingTimes(connection, id, from, to)
    if (due.length > 0)
      await connection.client.schedule.getHandle(id).backfill([{ start: from, end: to, overlap: 'BUFFER_ALL' }])
    return due
  })
}

/** @throws LonghaulError `Config.Invalid` */
export function requirePast({ from, to }: { from: Date; to: Date }): void {
  if (from < to && to <= new Date()) return
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected a span of the past, got ${from.toISOString()} to ${to.toISOString()}`,
  })
}

/** When the schedule starts a run in that span, its jitter included. */
async function matchingTimes(
  { client, namespace }: LonghaulConnection,
  scheduleId: string,
  from: Date,
  to: Date,
): Promise<Date[]> {
  const { startTime } = await client.workflowService.listScheduleMatchingTimes({
    namespace,
    scheduleId,
    startTime: secondsOf(from),
    endTime: secondsOf(to),
  })
  return startTime.map((time) => new Date(1000 * Number(time.seconds)))
}

export interface ListedSchedule {
  id: string
  paused: boolean
  settings: ScheduleSettings | null
  nextRuns: Date[]
  /** The newest last. */
  recentRuns: { workflowId: string; at: Date }[]
  /** Nights that were dropped because two runs were waiting already: more than 0 wants attention. */
  skippedOverlap: number
  /** Nights that were due while the server was away for longer than `catchupWindow`. */
  missedCatchup: number
  createdAt: Date
}

/** Other programs may have schedules in the namespace, which no command here may change. @throws LonghaulError `Config.Invalid` */
function ours(schedule: ScheduleDescription): ScheduleDescription {
  const { scheduleId, action } = schedule
  if (action.taskQueue === QUEUES.control) return schedule
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Schedule ${scheduleId} belongs to another program: it starts ${action.workflowType} on the task queue ${action.taskQueue}. Choose another id`,
  })
}

/** All schedules of the namespace that start a run of Longhaul. */
export function listSchedules({ connection }: { connection: LonghaulConnection }): Promise<ListedSchedule[]> {
  return called(connection, async () => {
    const listed: ListedSchedule[] = []
    for await (const { scheduleId } of connection.client.schedule.list()) {
      const described = await describeListed(connection, scheduleId)
      if (described === null) continue
      const { state, info, action } = described
      if (action.taskQueue !== QUEUES.control || action.workflowType === WATCH_TYPE) continue
      listed.push({
        id: scheduleId,
        paused: state.paused,
        settings: readSettings(state.note),
        nextRuns: info.nextActionTimes.slice(0, 3),
        recentRuns: info.recentActions.map((recent) => ({
          workflowId: recent.action.workflow.workflowId,
          at: recent.takenAt,
        })),
        skippedOverlap: info.numActionsSkippedOverlap,
        missedCatchup: info.numActionsMissedCatchupWindow,
        createdAt: info.createdAt,
      })
    }
    return listed.toSorted((a, b) => (a.id < b.id ? -1 : 1))
  })
}

/** Null where the schedule has been deleted: the server's list lags by a moment. */
export async function describeListed({ client }: LonghaulConnection, id: string): Promise<ScheduleDescription | null> {
  try {
    return await client.schedule.getHandle(id).describe()
  } catch (error) {
    if (error instanceof ScheduleNotFoundError) return null
    throw error
  }
}

/** Starts the schedule's workflow now. @returns the id of the started workflow, null where the server has not told it yet */
export function triggerSchedule({
  connection,
  id,
}: {
  connection: LonghaulConnection
  id: string
}): Promise<string | null> {
  return called(connection, async () => {
    const handle = connection.client.schedule.getHandle(id)
    const before = new Set(
      ours(await handle.describe()).info.recentActions.map((recent) => recent.action.workflow.workflowId),
    )
    await handle.trigger('BUFFER_ONE')
    // The server notes the started workflow a moment after it has accepted the request.
    for (let look = 0; look < 20; look++) {
      const { info } = await handle.describe()
      const started = info.recentActions.find((recent) => !before.has(recent.action.workflow.workflowId))
      if (started !== undefined) return started.action.workflow.workflowId
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    return null
  })
}

/** Runs that it started go on. @returns false where there was no such schedule */
export function deleteSchedule({ connection, id }: { connection: LonghaulConnection; id: string }): Promise<boolean> {
  return called(connection, async () => {
    try {
      const handle = connection.client.schedule.getHandle(id)
      ours(await handle.describe())
      await handle.delete()
      return true
    } catch (error) {
      if (error instanceof ScheduleNotFoundError) return false
      throw error
    }
  })
}

async function create(input: ScheduleInput, settings: ScheduleSettings): Promise<void> {
  const { connection, id, paused = false } = input
  const state = { note: JSON.stringify(settings), paused }
  try {
    await connection.client.schedule.create({ scheduleId: id, ...optionsOf(input, settings), state })
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) throw error
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Schedule ${id} was created by another client at the same moment; run the command again to see the difference`,
      cause: error,
    })
  }
}

interface KnownSchedule {
  settings: Partial<ScheduleSettings>
  paused: boolean
}

async function currentSettings(connection: LonghaulConnection, id: string): Promise<KnownSchedule | null> {
  try {
    const { state } = ours(await connection.client.schedule.getHandle(id).describe())
    return { settings: readSettings(state.note) ?? {}, paused: state.paused }
  } catch (error) {
    if (error instanceof ScheduleNotFoundError) return null
    throw error
  }
}

export async function nextRuns({ client }: LonghaulConnection, id: string): Promise<Date[]> {
  return (await client.schedule.getHandle(id).describe()).info.nextActionTimes.slice(0, 3)
}

export async function called<T>({ client }: LonghaulConnection, call: () => Promise<T>): Promise<T> {
  try {
    return await client.withDeadline(Date.now() + CALL_TIMEOUT_MS, call)
  } catch (error) {
    if (isRefusedInput(error)) {
      throw new LonghaulError({
        code: 'Config.Invalid',
        message: `The server refuses the schedule: ${messageOf(error)}`,
        cause: error,
      })
    }
    if (!(error instanceof ScheduleNotFoundError)) throw error
    throw new LonghaulError({
      code: 'Config.NotFound',
      message: `No schedule is called ${JSON.stringify(error.scheduleId)}; longhaul schedule list shows the existing schedules`,
      cause: error,
    })
  }
}

/** A cron field out of its range, for instance: gRPC 3, which the SDK's own schedule calls make a `TypeError`. */
function isRefusedInput(error: unknown): boolean {
  return error instanceof TypeError || grpcStatus(error) === 3
}

function messageOf(error: unknown): string {
  let message = String(error)
  for (let link: unknown = error; link instanceof Error; link = link.cause) message = link.message
  return message
}

type Timestamp = NonNullable<Parameters<WorkflowService['listScheduleMatchingTimes']>[0]['startTime']>

/** The protocol's own type holds 64 bits; its writer takes numbers too, and a time in seconds is exact in one. */
function secondsOf(time: Date): Timestamp {
  return { seconds: Math.floor(time.getTime() / 1000) } as unknown as Timestamp
}
