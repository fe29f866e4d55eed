/** What a schedule is asked to say, what it then says, and how that is put to the server. */
import type { ScheduleOptions } from '@temporalio/client'
import type { Duration } from '@temporalio/common'
import { LonghaulError } from '../contracts/errors.ts'
import { isScheduleId } from '../contracts/keys.ts'
import { ALARM_SCHEDULE, QUEUES, workflowIds } from '../contracts/workflow-ids.ts'
import { sha256Hex } from '../platform/hash.ts'

/** What the server does when a run is due and the last one is still open, as users write it. */
export const OVERLAPS = {
  skip: 'SKIP',
  bufferOne: 'BUFFER_ONE',
  cancelOther: 'CANCEL_OTHER',
  terminateOther: 'TERMINATE_OTHER',
  allowAll: 'ALLOW_ALL',
} as const

export interface ScheduleRequest {
  /** Id of the schedule, such as `nightly`. */
  id: string
  recipe: string
  /** YAML text of a recipe that the workers do not know; `recipe` then only names it. Kept in the schedule. */
  recipeText?: string
  /** Deep-merged over the recipe. */
  overrides?: Record<string, unknown>
  /** Of an evaluation: `base`, `promoted` or a version. @default what the recipe says on that night */
  policy?: string
  /** @default "evaluate" */
  action?: 'evaluate' | 'train'
  /** Five cron fields. @default "0 2 * * *" */
  cron?: string
  /** IANA name: a fixed zone, so that a night is a night on every machine. @default "UTC" */
  timezone?: string
  /** @default "bufferOne": one run may wait behind a slow one */
  overlap?: keyof typeof OVERLAPS
  /** A start that was missed for longer is left out. @default "6h" */
  catchupWindow?: string
  /** Keeps many schedules from starting in the same second. @default "10m" */
  jitter?: string
  /** Ends a run that hangs before the next one is due. @default "20h" */
  executionTimeout?: string
  /** @default as it is; a new schedule is not paused */
  paused?: boolean
}

/** What a schedule says; stored as its note, so that the next `create` can tell what it changes. */
export interface ScheduleSettings {
  recipe: string
  /** Hash of the text, where the recipe is a file. */
  recipeText?: string
  overrides?: string
  policy?: string
  action: 'evaluate' | 'train'
  cron: string
  timezone: string
  overlap: (typeof OVERLAPS)[keyof typeof OVERLAPS]
  catchupWindow: string
  jitter: string
  executionTimeout: string
}

/** @throws LonghaulError `Config.Invalid` */
export function settingsOf(request: ScheduleRequest): ScheduleSettings {
  const {
    id,
    recipe,
    recipeText,
    overrides,
    policy,
    action = 'evaluate',
    cron = '0 2 * * *',
    timezone = 'UTC',
  } = request
  if (!isScheduleId(id)) {
    throw invalid(`Expected the schedule's id to be letters, digits, ".", "_" or "-", got ${JSON.stringify(id)}`)
  }
  if (id === ALARM_SCHEDULE) {
    throw invalid(
      `Expected another id than ${id}: that is the schedule of the alarm watch, which the section alarms: of schedules.yaml creates`,
    )
  }
  const fault = faultOfCron(cron)
  if (fault !== null) throw invalid(`Schedule ${id} has the cron ${JSON.stringify(cron.slice(0, 200))}: ${fault}`)
  requireTimezone(timezone)
  if (policy !== undefined && action === 'train') {
    throw invalid(`Expected policy only in a schedule that evaluates; ${id} trains, from the base policy of its recipe`)
  }
  // A server that was down for half a day starts no stale nights; and a run ends before the next night begins.
  const { overlap = 'bufferOne', catchupWindow = '6h', jitter = '10m', executionTimeout = '20h' } = request
  for (const [name, duration] of Object.entries({ catchupWindow, jitter, executionTimeout }))
    requireDuration(name, duration)
  // The server takes 0 for no limit, and a night that hangs would keep all later ones from starting.
  if (executionTimeout.startsWith('0')) {
    throw invalid(`Expected executionTimeout to be longer than 0, got ${JSON.stringify(executionTimeout)}`)
  }
  return {
    recipe,
    ...(recipeText === undefined ? {} : { recipeText: sha256Hex(recipeText).slice(0, 12) }),
    ...(overrides === undefined || Object.keys(overrides).length === 0 ? {} : { overrides: JSON.stringify(overrides) }),
    ...(policy === undefined ? {} : { policy }),
    action,
    cron,
    timezone,
    overlap: OVERLAPS[overlap],
    catchupWindow,
    jitter,
    executionTimeout,
  }
}

export function optionsOf(
  request: ScheduleRequest,
  settings: ScheduleSettings,
): Pick<ScheduleOptions, 'spec' | 'action' | 'policies'> {
  const { id, recipe, recipeText, overrides, policy } = request
  const trains = settings.action === 'train'
  const input = {
    recipe,
    ...(recipeText === undefined ? {} : { recipeText }),
    ...(settings.overrides === undefined ? {} : { overrides }),
    ...(policy === undefined ? {} : { policy }),
    // Its nights compare with each other, whatever the recipe is called after it was changed.
    ...(trains ? {} : { series: id }),
  }
  return {
    spec: { cronExpressions: [settings.cron], timezone: settings.timezone, jitter: settings.jitter as Duration },
    action: {
      type: 'startWorkflow',
      workflowType: trains ? 'trainAgent' : 'evaluate',
      // The server appends the time, so that every night has its own id.
      workflowId: trains ? workflowIds.train(id) : workflowIds.evaluation(id),
      taskQueue: QUEUES.control,
      args: [input],
      workflowExecutionTimeout: settings.executionTimeout as Duration,
      staticSummary: `${settings.recipe} · schedule ${id}`,
    },
    policies: { overlap: settings.overlap, catchupWindow: settings.catchupWindow as Duration, pauseOnFailure: false },
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
  // A note that says nothing of the recipe was not written here: nothing of it is known.
  const absent = before.recipe === undefined ? 'unknown' : 'none'
  return [...new Set([...Object.keys(before), ...Object.keys(after)] as (keyof ScheduleSettings)[])]
    .filter((key) => before[key] !== after[key])
    .map((key) => `${key}: ${before[key] ?? absent} → ${after[key] ?? 'none'}`)
}

function requireDuration(name: string, duration: string): void {
  if (/^(0|[1-9][0-9]{0,5}) ?(s|m|h|d)$/.test(duration)) return
  throw invalid(`Expected ${name} to be a duration such as 30s, 10m, 6h or 2d, got ${JSON.stringify(duration)}`)
}

function invalid(message: string): LonghaulError {
  return new LonghaulError({ code: 'Config.Invalid', message })
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

/** Five cron fields, by the rules of the Temporal server, which names neither the field nor the value that it refuses. */

interface Field {
  name: string
  least: number
  most: number
  /** Values that have names, from `least` on. The server takes beginnings of them. */
  names?: readonly string[]
  shortestName?: number
}

const MONTHS = 'january february march april may june july august september october november december'.split(' ')
const DAYS = 'sunday monday tuesday wednesday thursday friday saturday'.split(' ')

const FIELDS: readonly Field[] = [
  { name: 'minute', least: 0, most: 59 },
  { name: 'hour', least: 0, most: 23 },
  { name: 'day of the month', least: 1, most: 31 },
  { name: 'month', least: 1, most: 12, names: MONTHS, shortestName: 3 },
  { name: 'day of the week', least: 0, most: 7, names: DAYS, shortestName: 2 },
]

/** Of a leap year: a schedule may wait for one. */
const DAYS_OF_MONTHS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

/** @returns what is wrong with five cron fields, null if they name times that exist */
export function faultOfCron(cron: string): string | null {
  const texts = cron.trim().split(/\s+/)
  if (texts.length !== FIELDS.length) return 'expected five cron fields such as "0 2 * * *"'
  const read = FIELDS.map((field, index) => readField(field, texts[index] ?? ''))
  for (const found of read) if (typeof found === 'string') return found
  const [, , days, months] = read as number[][]
  // The server wants the day of the month and the day of the week to hold together, so the latter makes no other day possible.
  const exists = months?.some((month) => days?.some((day) => day <= (DAYS_OF_MONTHS[month - 1] ?? 0)))
  return exists === true ? null : `no month ${texts[3]} has a day ${texts[2]}, so it would never start anything`
}

/** @returns the values that match, or what is wrong */
function readField(field: Field, text: string): number[] | string {
  const { name, least, most } = field
  const refuse = (part: string): string => `expected ${describeField(field)}, got ${JSON.stringify(part)}`
  const values: number[] = []
  for (const part of text.split(',')) {
    const [, range = '', step] = /^([^/]+)(?:\/(\d{1,9}))?$/.exec(part) ?? []
    const [from = '', to, ...more] = range === '*' ? [String(least), String(most)] : range.split('-')
    const start = valueOf(field, from)
    // A single value with a step counts up to the end.
    const end = to === undefined ? (step === undefined ? start : most) : valueOf(field, to)
    if (start === null || end === null || more.length > 0) return refuse(part)
    if (end < start)
      return `expected the ${name} to go from the smaller to the larger value, got ${JSON.stringify(part)}`
    const stride = Number(step ?? 1)
    if (stride < 1 || stride > most - least + 1) {
      return `expected a step of 1 to ${most - least + 1} in the ${name}, got ${JSON.stringify(part)}`
    }
    for (let value = start; value <= end; value += stride) values.push(value)
  }
  return values
}

function describeField({ name, least, most, names }: Field): string {
  const words = names === undefined ? '' : ` or a name such as ${names[1]?.slice(0, 3)}`
  return `the ${name} to be * or ${least} to ${most}${words}, with , - and / between`
}

function valueOf({ least, most, names = [], shortestName = 0 }: Field, text: string): number | null {
  if (/^\d{1,9}$/.test(text)) {
    const value = Number(text)
    return value >= least && value <= most ? value : null
  }
  const named = text.length >= shortestName ? names.findIndex((name) => name.startsWith(text.toLowerCase())) : -1
  return named < 0 ? null : named + least
}
