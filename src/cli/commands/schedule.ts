import { type Command, Option } from 'commander'
import {
  applyAlarms,
  backfillSchedule,
  createSchedule,
  deleteSchedule,
  type ListedSchedule,
  listSchedules,
  OVERLAPS,
  pauseSchedule,
  removeAlarms,
  type AlarmsChange,
  type ScheduleChange,
  triggerSchedule,
} from '../../client/index.ts'
import { alarmSettings } from '../../client/alarm-schedule.ts'
import { requirePast } from '../../client/schedules.ts'
import { settingsOf } from '../../client/schedule-settings.ts'
import { ALARM_SCHEDULE } from '../../contracts/workflow-ids.ts'
import type { CommandContext } from '../command-context.ts'
import { withConnection } from '../local-stack.ts'
import { collect, dryRunOption, examples, instant, jsonOption, policyName, scheduleId } from '../arguments/options.ts'
import { pushScheduledRecipe, readScheduledRecipe, readScheduleFile } from '../arguments/schedule-file.ts'

interface CreateOptions {
  recipe: string
  set?: string[]
  policy?: string
  action: 'evaluate' | 'train'
  cron: string
  timezone: string
  overlap: keyof typeof OVERLAPS
  catchupWindow: string
  executionTimeout: string
  dryRun?: true
  json?: true
}

export function addSchedule(program: Command, { console }: CommandContext): void {
  const schedule = program.command('schedule').description('start runs at fixed times by schedules of Temporal')
  const printChange = (change: ScheduleChange, { json, dryRun }: { json?: true; dryRun?: true }): void => {
    if (json === true) console.record({ ...change, dryRun: dryRun === true })
    else console.out(describeChange(change, dryRun === true))
  }
  const printAlarms = ({ id, kind, diff }: AlarmsChange, { json, dryRun }: { json?: true; dryRun?: true }): void => {
    if (json === true) console.record({ id, kind, diff, dryRun: dryRun === true })
    else {
      const words = `${dryRun === true && kind !== 'unchanged' ? 'would be ' : ''}${kind} ${id}: looks for alarms`
      console.out([words, ...diff.map((line) => `  ${line}`)].join('\n'))
    }
  }
  const printAbsent = (id: string, { prune, json, dryRun }: { prune?: true; json?: true; dryRun?: true }): void => {
    const kind = prune === true ? 'deleted' : 'not in the file'
    if (json === true) console.record({ id, kind, dryRun: dryRun === true })
    else console.out(`${dryRun === true && prune === true ? 'would be ' : ''}${kind} ${id}`)
  }
  schedule
    .command('create')
    .argument('<id>', 'name of the schedule', scheduleId)
    .description('create a schedule, or change it to these settings and print the difference')
    .requiredOption(
      '--recipe <name|file>',
      'a recipe that the workers know, or a YAML file, which is pushed under a name with its hash',
    )
    .option('-c, --set <key=value>', 'override a key of the recipe, repeatable: -c evaluate.attempts=5', collect)
    .option(
      '--policy <policy>',
      'of an evaluation: promoted, base, kept or a version (default: the recipe’s, each night)',
      policyName,
    )
    .addOption(new Option('--action <what>', 'what it starts').choices(['evaluate', 'train']).default('evaluate'))
    .option('--cron <fields>', 'five fields', '0 2 * * *')
    .option('--timezone <zone>', 'IANA name', 'UTC')
    .addOption(
      new Option('--overlap <what>', 'what happens when a run is due and the last one is still open')
        .choices(Object.keys(OVERLAPS))
        .default('bufferOne'),
    )
    .option('--catchup-window <duration>', 'skip a start that was missed by more than this', '6h')
    .option('--execution-timeout <duration>', 'end a hanging run after this time, before the next one is due', '20h')
    .addOption(dryRunOption())
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples(
        'longhaul schedule create nightly --recipe nightly',
        "longhaul schedule create nightly --recipe nightly --cron '30 1 * * *' --timezone Europe/Berlin",
        'longhaul schedule create mine --recipe ./mine.yaml -c evaluate.attempts=5 --policy base',
      ),
    )
    .action(async (id: string, { json, dryRun, recipe, set, ...settings }: CreateOptions) => {
      // Checked now, since a faulty recipe would fail every night.
      const read = await readScheduledRecipe({ recipe, ...(set === undefined ? {} : { set }) })
      settingsOf({ id, ...settings, ...read })
      const change = await withConnection(async (connection) => {
        // Pushed once the server answers: without a schedule it would stand in the list of recipes.
        const request = await pushScheduledRecipe(read, { dryRun: dryRun === true })
        return createSchedule({ connection, id, ...settings, ...request, dryRun: dryRun === true })
      })
      printChange(change, { ...(json === undefined ? {} : { json }), ...(dryRun === undefined ? {} : { dryRun }) })
    })
  schedule
    .command('apply')
    .argument('<file>', 'YAML with `schedules:` by name, and `alarms:` (docs/nightly.md)')
    .description('make the schedules and the alarm watch match a file, and print the difference')
    .option('--prune', 'delete schedules of Longhaul that the file does not name')
    .addOption(dryRunOption())
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples('longhaul schedule apply schedules.yaml --dry-run', 'longhaul schedule apply schedules.yaml'),
    )
    .action(async (file: string, options: { prune?: true; dryRun?: true; json?: true }) => {
      const { schedules: requests, alarms } = await readScheduleFile(file)
      // All of them are checked before the first is changed.
      for (const request of requests) settingsOf(request)
      if (alarms !== null) alarmSettings(alarms)
      await withConnection(async (connection) => {
        const dryRun = options.dryRun === true
        for (const request of requests) {
          const pushed = await pushScheduledRecipe(request, { dryRun })
          printChange(await createSchedule({ connection, ...pushed, dryRun }), options)
        }
        if (alarms !== null) printAlarms(await applyAlarms({ connection, request: alarms, dryRun }), options)
        else if (await removeAlarms({ connection, dryRun: dryRun || options.prune !== true }))
          printAbsent(ALARM_SCHEDULE, options)
        const named = new Set(requests.map(({ id }) => id))
        for (const { id } of await listSchedules({ connection })) {
          if (named.has(id)) continue
          if (options.prune === true && !dryRun) await deleteSchedule({ connection, id })
          printAbsent(id, options)
        }
      })
    })
  for (const [name, paused, words] of [
    ['pause', true, 'start no more runs; an open run continues'],
    ['resume', false, 'start runs again; skip those that were due during the pause'],
  ] as const) {
    schedule
      .command(name)
      .argument('<id>', 'name of the schedule', scheduleId)
      .description(words)
      .addOption(jsonOption())
      .action(async (id: string, { json }: { json?: true }) => {
        const changed = await withConnection((connection) => pauseSchedule({ connection, id, paused }))
        if (json === true) console.record({ id, paused, changed })
        else console.out(`${id} ${changed ? 'is' : 'was already'} ${paused ? 'paused' : 'running on its clock'}`)
      })
  }
  schedule
    .command('backfill')
    .argument('<id>', 'name of the schedule', scheduleId)
    .description('start the missed runs of a past period, one after another')
    .requiredOption('--from <time>', 'ISO time, such as 2026-11-20T00:00:00Z', instant)
    .requiredOption('--to <time>', 'ISO time', instant)
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples('longhaul schedule backfill nightly --from 2026-11-20T00:00:00Z --to 2026-11-22T00:00:00Z'),
    )
    .action(async (id: string, { from, to, json }: { from: Date; to: Date; json?: true }) => {
      requirePast({ from, to })
      const due = await withConnection((connection) => backfillSchedule({ connection, id, from, to }))
      if (json === true) console.record({ id, due })
      else
        console.out(
          due.length === 0
            ? `nothing was due for ${id}`
            : due.map((time) => `starting ${id} of ${time.toISOString()}`).join('\n'),
        )
    })
  schedule
    .command('list')
    .description('all schedules with their next and last runs')
    .addOption(jsonOption())
    .action(async ({ json }: { json?: true }) => {
      const schedules = await withConnection((connection) => listSchedules({ connection }))
      if (json === true) console.record({ schedules })
      else console.out(schedules.length === 0 ? 'no schedules' : schedules.map(describeListed).join('\n'))
    })
  schedule
    .command('trigger')
    .argument('<id>', 'name of the schedule', scheduleId)
    .description('start its run now')
    .addOption(jsonOption())
    .action(async (id: string, { json }: { json?: true }) => {
      const workflowId = await withConnection((connection) => triggerSchedule({ connection, id }))
      if (json === true) console.record({ id, workflowId })
      else console.out(workflowId ?? `${id} was triggered; longhaul schedule list shows the run`)
    })
  schedule
    .command('delete')
    .argument('<id>', 'name of the schedule', scheduleId)
    .description('delete a schedule; runs that it started continue')
    .addOption(jsonOption())
    .action(async (id: string, { json }: { json?: true }) => {
      const changed = await withConnection((connection) => deleteSchedule({ connection, id }))
      if (json === true) console.record({ id, changed })
      else console.out(changed ? `deleted ${id}` : `there is no schedule ${id}`)
    })
}

function describeChange({ id, kind, settings, diff, nextRuns }: ScheduleChange, dryRun: boolean): string {
  return [
    `${dryRun && kind !== 'unchanged' ? 'would be ' : ''}${kind} ${id}: ${settings.action} ${settings.recipe}, ${settings.cron} ${settings.timezone}`,
    ...diff.map((line) => `  ${line}`),
    `  overlap ${settings.overlap}, catch-up ${settings.catchupWindow}, at most ${settings.executionTimeout} a run`,
    ...nextRuns.slice(0, 1).map((next) => `  next run ${next.toISOString()} (up to ${settings.jitter} later)`),
  ].join('\n')
}

function describeListed(listed: ListedSchedule): string {
  const { id, paused, settings, nextRuns, recentRuns, skippedOverlap, missedCatchup } = listed
  const last = recentRuns.at(-1)
  return [
    `${id}${paused ? ' (paused)' : ''}: ${settings === null ? 'settings unknown' : `${settings.action} ${settings.recipe}, ${settings.cron} ${settings.timezone}`}`,
    ...nextRuns.slice(0, 1).map((next) => `  next  ${next.toISOString()}`),
    ...(last === undefined ? [] : [`  last  ${last.at.toISOString()}  ${last.workflowId}`]),
    ...(skippedOverlap === 0 ? [] : [`  ${skippedOverlap} runs were dropped because one was waiting already`]),
    ...(missedCatchup === 0 ? [] : [`  ${missedCatchup} runs were missed while the server was away`]),
  ].join('\n')
}
