/** What a schedule is asked to say, what it then says, and how that is put to the server. */
import type { ScheduleOptions } from '@temporalio/client'
import { LonghaulError } from '../contracts/errors.ts'
import { QUEUES, workflowIds } from '../contracts/workflow-ids.ts'

export interface ScheduleRequest {
  /** Id of the schedule, such as `nightly`. */
  id: string
  recipe: string
  /** @default "evaluate" */
  action?: 'evaluate' | 'train'
  /** Five cron fields. @default "0 2 * * *" */
  cron?: string
  /** IANA name: a fixed zone, so that a night is a night on every machine. @default "UTC" */
  timezone?: string
}

/** What a schedule says; stored as its note, so that the next `create` can tell what it changes. */
export interface ScheduleSettings {
  recipe: string
  action: 'evaluate' | 'train'
  cron: string
  timezone: string
  overlap: 'BUFFER_ONE'
  catchupWindow: '6h'
  jitter: '10m'
  executionTimeout: '20h'
}

/** @throws LonghaulError `Config.Invalid` */
export function settingsOf({
  id,
  recipe,
  action = 'evaluate',
  cron = '0 2 * * *',
  timezone = 'UTC',
}: ScheduleRequest): ScheduleSettings {
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$/.test(id)) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected the schedule's id to be letters, digits, ".", "_" or "-", got ${JSON.stringify(id)}`,
    })
  }
  if (cron.trim().split(/\s+/).length !== 5) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected five cron fields such as "0 2 * * *", got ${JSON.stringify(cron)}`,
    })
  }
  requireTimezone(timezone)
  // One run may wait behind a slow one; a server that was down for half a day starts no stale nights; and a run ends before the
  // next night begins. The jitter keeps many schedules from starting in the same second.
  return {
    recipe,
    action,
    cron,
    timezone,
    overlap: 'BUFFER_ONE',
    catchupWindow: '6h',
    jitter: '10m',
    executionTimeout: '20h',
  }
}

export function optionsOf(
  id: string,
  settings: ScheduleSettings,
): Pick<ScheduleOptions, 'spec' | 'action' | 'policies'> {
  const trains = settings.action === 'train'
  return {
    spec: { cronExpressions: [settings.cron], timezone: settings.timezone, jitter: settings.jitter },
    action: {
      type: 'startWorkflow',
      workflowType: trains ? 'trainAgent' : 'evaluate',
      // The server appends the time, so that every night has its own id.
      workflowId: trains ? workflowIds.train(id) : workflowIds.evaluation(id),
      taskQueue: QUEUES.control,
      args: [{ recipe: settings.recipe }],
      workflowExecutionTimeout: settings.executionTimeout,
      staticSummary: `${settings.recipe} · schedule ${id}`,
    },
    policies: { overlap: settings.overlap, catchupWindow: settings.catchupWindow, pauseOnFailure: false },
  }
}

/** Null for a note that a person wrote. */
export function readSettings(note: string | undefined): ScheduleSettings | null {
  try {
    const parsed: unknown = JSON.parse(note ?? 'null')
    return typeof parsed === 'object' && parsed !== null && 'recipe' in parsed ? (parsed as ScheduleSettings) : null
  } catch {
    return null
  }
}

/** `cron: 0 2 * * * → 0 3 * * *`, a line for each that differs. */
export function differences(before: Partial<ScheduleSettings>, after: ScheduleSettings): string[] {
  return (Object.keys(after) as (keyof ScheduleSettings)[])
    .filter((key) => before[key] !== after[key])
    .map((key) => `${key}: ${before[key] ?? 'unknown'} → ${after[key]}`)
}

function requireTimezone(timezone: string): void {
  try {
    Intl.DateTimeFormat('en', { timeZone: timezone })
  } catch (cause) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected an IANA time zone such as Europe/Berlin, got ${JSON.stringify(timezone)}`,
      cause,
    })
  }
}
