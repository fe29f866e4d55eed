import { type Command, Option } from 'commander'
import {
  createSchedule,
  deleteSchedule,
  type ListedSchedule,
  listSchedules,
  type ScheduleChange,
  triggerSchedule,
} from '../../client/index.ts'
import type { CommandContext } from '../command-context.ts'
import { withConnection } from '../local-stack.ts'
import { examples, jsonOption } from '../arguments/options.ts'
import { readRecipeArgument } from '../arguments/recipe-argument.ts'

interface CreateOptions {
  recipe: string
  action: 'evaluate' | 'train'
  cron: string
  timezone: string
  json?: true
}

export function addSchedule(program: Command, { console }: CommandContext): void {
  const schedule = program.command('schedule').description('runs on a clock, kept by Temporal')
  schedule
    .command('create')
    .argument('<id>', 'name of the schedule')
    .description('make a schedule, or change it to these settings and print the difference')
    .requiredOption('--recipe <name>', 'a recipe that the workers know')
    .addOption(new Option('--action <what>', 'what it starts').choices(['evaluate', 'train']).default('evaluate'))
    .option('--cron <fields>', 'five fields', '0 2 * * *')
    .option('--timezone <zone>', 'IANA name', 'UTC')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples(
        'longhaul schedule create nightly --recipe nightly',
        "longhaul schedule create nightly --recipe nightly --cron '30 1 * * *' --timezone Europe/Berlin",
      ),
    )
    .action(async (id: string, { recipe, action, cron, timezone, json }: CreateOptions) => {
      // A faulty recipe would fail every night: it is checked now.
      await readRecipeArgument({ recipe })
      const change = await withConnection((connection) =>
        createSchedule({ connection, id, recipe, action, cron, timezone }),
      )
      if (json === true) console.record(change)
      else console.out(describeChange(change))
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
    .argument('<id>')
    .description('start its run now')
    .addOption(jsonOption())
    .action(async (id: string, { json }: { json?: true }) => {
      const workflowId = await withConnection((connection) => triggerSchedule({ connection, id }))
      if (json === true) console.record({ id, workflowId })
      else console.out(workflowId ?? `${id} was triggered; longhaul schedule list shows the run`)
    })
  schedule
    .command('delete')
    .argument('<id>')
    .description('remove it; runs that it started go on')
    .addOption(jsonOption())
    .action(async (id: string, { json }: { json?: true }) => {
      const changed = await withConnection((connection) => deleteSchedule({ connection, id }))
      if (json === true) console.record({ id, changed })
      else console.out(changed ? `deleted ${id}` : `there is no schedule ${id}`)
    })
}

function describeChange({ id, kind, settings, diff, nextRuns }: ScheduleChange): string {
  return [
    `${kind} ${id}: ${settings.action} ${settings.recipe}, ${settings.cron} ${settings.timezone}`,
    ...diff.map((line) => `  ${line}`),
    `  overlap ${settings.overlap}, catch-up ${settings.catchupWindow}, at most ${settings.executionTimeout} a run`,
    ...nextRuns.slice(0, 1).map((next) => `  next run ${next.toISOString()} (up to ${settings.jitter} later)`),
  ].join('\n')
}

function describeListed({ id, paused, settings, nextRuns, recentRuns, skippedOverlap }: ListedSchedule): string {
  const last = recentRuns.at(-1)
  return [
    `${id}${paused ? ' (paused)' : ''}: ${settings === null ? 'settings unknown' : `${settings.action} ${settings.recipe}, ${settings.cron} ${settings.timezone}`}`,
    ...nextRuns.slice(0, 1).map((next) => `  next  ${next.toISOString()}`),
    ...(last === undefined ? [] : [`  last  ${last.at.toISOString()}  ${last.workflowId}`]),
    ...(skippedOverlap === 0 ? [] : [`  ${skippedOverlap} runs were dropped because one was waiting already`]),
  ].join('\n')
}
