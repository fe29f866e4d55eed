/** The watch beside the nights: one schedule of a namespace, made from the `alarms` of a file. */
import type { ScheduleOptions } from '@temporalio/client'
import type { Duration } from '@temporalio/common'
import { ALARM_FACT_PATTERN, ALARM_FACTS } from '../contracts/alarm-facts.ts'
import type { AlarmReceiver, AlarmRules, AlarmTemplate, WatchInput } from '../contracts/alarms.types.ts'
import { LonghaulError } from '../contracts/errors.ts'
import { ALARM_SCHEDULE, QUEUES, WATCH_TYPE, workflowIds } from '../contracts/workflow-ids.ts'
import type { LonghaulConnection } from './connect.ts'
import { called, deleteSchedule, describeListed } from './schedules.ts'

export interface AlarmsRequest {
  /** Variable of the control workers that holds the address. */
  urlVariable: string
  /** Variable that holds the key of the signature. Needed for template json, whose receivers verify it. */
  secretVariable?: string
  /** @default "json" */
  template?: AlarmTemplate
  /** @default 30 */
  blockerMinutes?: number
  /** @default 5 */
  everyMinutes?: number
  /** @default "scheduled" */
  runs?: AlarmRules['runs']
}

export interface AlarmsChange {
  id: typeof ALARM_SCHEDULE
  kind: 'created' | 'updated' | 'unchanged'
  diff: string[]
}

type AlarmSettings = Required<Omit<AlarmsRequest, 'secretVariable'>> & Pick<AlarmReceiver, 'secretVariable'>

/** Makes the watch, or changes an existing one. Only names of variables are stored. @throws LonghaulError `Config.Invalid` */
export async function applyAlarms({
  connection,
  request,
  dryRun = false,
}: {
  connection: LonghaulConnection
  request: AlarmsRequest
  dryRun?: boolean
}): Promise<AlarmsChange> {
  const settings = alarmSettings(request)
  return called(connection, async () => {
    const found = await describeListed(connection, ALARM_SCHEDULE)
    const before = found === null ? null : settingsIn(found.state.note)
    const diff = before === null ? [] : differences(before, settings)
    const kind = found === null ? 'created' : before !== null && diff.length === 0 ? 'unchanged' : 'updated'
    if (!dryRun && kind !== 'unchanged') await write(connection, settings, kind)
    return { id: ALARM_SCHEDULE, kind, diff }
  })
}

async function write(
  { client }: LonghaulConnection,
  settings: AlarmSettings,
  kind: 'created' | 'updated',
): Promise<void> {
  const options = optionsOf(settings)
  const note = JSON.stringify(settings)
  if (kind === 'created') await client.schedule.create({ scheduleId: ALARM_SCHEDULE, ...options, state: { note } })
  else {
    const { spec, action, policies = {} } = options
    await client.schedule
      .getHandle(ALARM_SCHEDULE)
      .update(({ state }) => ({ spec, action, policies, state: { paused: state.paused, note } }))
  }
}

/** @returns false where there was none */
export function removeAlarms({
  connection,
  dryRun = false,
}: {
  connection: LonghaulConnection
  dryRun?: boolean
}): Promise<boolean> {
  if (!dryRun) return deleteSchedule({ connection, id: ALARM_SCHEDULE })
  return called(connection, async () => (await describeListed(connection, ALARM_SCHEDULE)) !== null)
}

/** @throws LonghaulError `Config.Invalid` */
export function alarmSettings({
  urlVariable,
  secretVariable,
  template = 'json',
  blockerMinutes = 30,
  everyMinutes = 5,
  runs = 'scheduled',
}: AlarmsRequest): AlarmSettings {
  for (const [key, name] of Object.entries({ urlVariable, secretVariable })) {
    if (name !== undefined && !/^[A-Za-z_][A-Za-z0-9_]{0,99}$/.test(name))
      throw invalid(
        `Expected alarms.${key} to be the name of an environment variable of the control workers, such as LONGHAUL_ALARM_URL. Put the value itself into that variable; it is not printed here, because it may be a secret`,
      )
  }
  if (template === 'json' && secretVariable === undefined)
    throw invalid(
      'Expected alarms.secretVariable with template json: it names the environment variable with the key that signs alarms, so that the receiver can verify their sender',
    )
  if (typeof template === 'object') requireTemplate(template)
  requireMinutes('blockerMinutes', blockerMinutes, 7 * 24 * 60)
  requireMinutes('everyMinutes', everyMinutes, 24 * 60)
  return { urlVariable, secretVariable: secretVariable ?? null, template, blockerMinutes, everyMinutes, runs }
}

/** The receiver would get an unknown name as it stands. */
function requireTemplate(template: object): void {
  const text = JSON.stringify(template)
  if (text.length > 8_000) throw invalid('Expected alarms.template to be at most 8,000 characters of JSON')
  const known: readonly string[] = ALARM_FACTS
  const [unknown] = [...text.matchAll(ALARM_FACT_PATTERN)].filter(([, name = '']) => !known.includes(name))
  if (unknown !== undefined)
    throw invalid(`Expected alarms.template to use only the names ${known.join(', ')}; got ${unknown[0]}`)
}

function requireMinutes(key: string, value: number, most: number): void {
  if (Number.isInteger(value) && value >= 1 && value <= most) return
  throw invalid(`Expected alarms.${key} to be whole minutes from 1 to ${most}, got ${value}`)
}

function optionsOf(settings: AlarmSettings): Pick<ScheduleOptions, 'spec' | 'action' | 'policies'> {
  const { urlVariable, secretVariable, template, blockerMinutes, everyMinutes, runs } = settings
  const input: WatchInput = { blockerMinutes, runs, receiver: { urlVariable, secretVariable, template } }
  return {
    spec: { intervals: [{ every: `${everyMinutes}m` as Duration }] },
    action: {
      type: 'startWorkflow',
      workflowType: WATCH_TYPE,
      workflowId: workflowIds.watch(ALARM_SCHEDULE),
      taskQueue: QUEUES.control,
      args: [input],
      // Looks at twenty runs for a minute each at worst, and twenty alarms to a silent receiver.
      workflowExecutionTimeout: '3h',
      staticSummary: 'looks for alarms',
    },
    // A round that was missed is made good by the next one: it looks back for days.
    policies: { overlap: 'SKIP', catchupWindow: '1m', pauseOnFailure: false },
  }
}

/** Null for a note that a person wrote. */
function settingsIn(note: string | undefined): AlarmSettings | null {
  try {
    const parsed: unknown = JSON.parse(note ?? 'null')
    return typeof parsed === 'object' && parsed !== null && 'urlVariable' in parsed ? (parsed as AlarmSettings) : null
  } catch {
    return null
  }
}

function differences(before: AlarmSettings, after: AlarmSettings): string[] {
  const say = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value ?? 'none'))
  return (Object.keys(after) as (keyof AlarmSettings)[])
    .map((key) => ({ key, from: say(before[key]), to: say(after[key]) }))
    .filter(({ from, to }) => from !== to)
    .map(({ key, from, to }) => `${key}: ${from} → ${to}`)
}

function invalid(message: string): LonghaulError {
  return new LonghaulError({ code: 'Config.Invalid', message })
}
