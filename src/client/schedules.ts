/** Runs on a clock: schedules as code, created or updated by the same call, with the difference said. */
import { ScheduleAlreadyRunning, ScheduleNotFoundError } from '@temporalio/client'
import { LonghaulError } from '../contracts/errors.ts'
import { QUEUES } from '../contracts/workflow-ids.ts'
import { CALL_TIMEOUT_MS, type LonghaulConnection } from './connect.ts'
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
  nextRuns: Date[]
}

/** Makes the schedule, or changes an existing one to these settings. A paused schedule stays paused. */
export async function createSchedule(input: ScheduleInput): Promise<ScheduleChange> {
  const { connection, id } = input
  const settings = settingsOf(input)
  return called(connection, async () => {
    const handle = connection.client.schedule.getHandle(id)
    const before = await currentSettings(connection, id)
    if (before === null) {
      await create(connection, id, settings)
      return { id, kind: 'created', settings, diff: [], nextRuns: await nextRuns(connection, id) }
    }
    const diff = differences(before, settings)
    if (diff.length === 0) {
      return { id, kind: 'unchanged', settings, diff, nextRuns: await nextRuns(connection, id) }
    }
    const { spec, action, policies } = optionsOf(id, settings)
    await handle.update((previous) => ({
      spec,
      action,
      policies: policies ?? {},
      state: { paused: previous.state.paused, note: JSON.stringify(settings) },
    }))
    return { id, kind: 'updated', settings, diff, nextRuns: await nextRuns(connection, id) }
  })
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
}

/** All schedules of the namespace that start a Longhaul workflow. */
export function listSchedules({ connection }: { connection: LonghaulConnection }): Promise<ListedSchedule[]> {
  return called(connection, async () => {
    const listed: ListedSchedule[] = []
    for await (const { scheduleId } of connection.client.schedule.list()) {
      const { state, info, action } = await connection.client.schedule.getHandle(scheduleId).describe()
      if (action.taskQueue !== QUEUES.control) continue
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
      })
    }
    return listed.toSorted((a, b) => (a.id < b.id ? -1 : 1))
  })
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
      (await handle.describe()).info.recentActions.map((recent) => recent.action.workflow.workflowId),
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
      await connection.client.schedule.getHandle(id).delete()
      return true
    } catch (error) {
      if (error instanceof ScheduleNotFoundError) return false
      throw error
    }
  })
}

async function create({ client }: LonghaulConnection, id: string, settings: ScheduleSettings): Promise<void> {
  const state = { note: JSON.stringify(settings) }
  try {
    await client.schedule.create({ scheduleId: id, ...optionsOf(id, settings), state })
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) throw error
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Schedule ${id} was created by another client at the same moment; run the command again to see the difference`,
      cause: error,
    })
  }
}

async function currentSettings(connection: LonghaulConnection, id: string): Promise<Partial<ScheduleSettings> | null> {
  try {
    const { state } = await connection.client.schedule.getHandle(id).describe()
    return readSettings(state.note) ?? {}
  } catch (error) {
    if (error instanceof ScheduleNotFoundError) return null
    throw error
  }
}

async function nextRuns({ client }: LonghaulConnection, id: string): Promise<Date[]> {
  return (await client.schedule.getHandle(id).describe()).info.nextActionTimes.slice(0, 3)
}

async function called<T>({ client }: LonghaulConnection, call: () => Promise<T>): Promise<T> {
  try {
    return await client.withDeadline(Date.now() + CALL_TIMEOUT_MS, call)
  } catch (error) {
    if (!(error instanceof ScheduleNotFoundError)) throw error
    throw new LonghaulError({
      code: 'Config.NotFound',
      message: `${error.message}; longhaul schedule list shows those there are`,
      cause: error,
    })
  }
}
