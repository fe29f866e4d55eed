import { type Command, InvalidArgumentError } from 'commander'
import { readPlayedTasks } from '../../activities/evaluation/played-tasks.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { curate, mergeAttempts } from '../../domain/statistics/task-difficulty.ts'
import { curationTable, formatCuration } from '../../report/suite-table.ts'
import { renderTable } from '../../report/text-report.ts'
import type { CommandContext } from '../command-context.ts'
import { openStore } from '../local-stack.ts'
import { examples, jsonOption, policyName, runNames } from '../arguments/options.ts'
import { requireWritable, writeResult } from '../output/require-writable.ts'
import { requireKnownRun } from '../../activities/run/run-names.ts'

interface DifficultyOptions {
  stage?: string[]
  policy?: string
  dropSolved: number
  keepUnsolved?: true
  output?: string
  json?: true
}

export function addDifficulty(tasks: Command, context: CommandContext): void {
  tasks
    .command('difficulty')
    .argument('<runs...>', 'names of runs; their attempts are merged', runNames)
    .description('solve rate of each task from stored attempts, and which of them the second stage of the paper keeps')
    .option('--stage <name>', 'only attempts of this stage, repeatable (default: all, evaluations too)', runNames)
    .option('--policy <version>', 'only attempts of this policy', policyName)
    .option('--drop-solved <rate>', 'drop tasks solved at least this often', rate, 2 / 3)
    .option('--keep-unsolved', 'keep tasks that were never solved')
    .option('--output <file>', 'write the ids of kept tasks there, one a line')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples(
        'longhaul tasks difficulty demo-2026-11-20-a --stage dapo-1',
        'longhaul tasks difficulty run-a run-b --drop-solved 0.9 --output kept.txt',
      ),
    )
    .action((runs: string[], options: DifficultyOptions) => showDifficulty(runs, options, context))
}

async function showDifficulty(runs: string[], options: DifficultyOptions, { console }: CommandContext): Promise<void> {
  await requireWritable({ files: { '--output': options.output } })
  const store = await openStore()
  const stages = options.stage ?? []
  const played = await readPlayedTasks(store, { runs, stages, policy: options.policy ?? null })
  // A name that matches nothing is a mistake also beside others: their rates would pass for those of all.
  const placed = played.map(({ record }) => record.episode.split('/'))
  const idle = runs.filter((run) => !placed.some(([of]) => of === run))
  const absent = stages.filter((stage) => !placed.some(([, of]) => of === stage))
  for (const run of idle) await requireKnownRun(store, run)
  if (idle.length + absent.length > 0) {
    const what = idle.length > 0 ? `of ${idle.join(', ')} matches` : `is of the stage ${absent.join(', ')}`
    throw new LonghaulError({
      code: 'Config.NotFound',
      message: `No attempt ${what} in the artifact store at ${store.locate('runs')}; set LONGHAUL_ARTIFACTS to use another store`,
    })
  }
  const rule = {
    dropSuccessAtLeast: options.dropSolved,
    dropNeverSolved: options.keepUnsolved !== true,
    unseen: 'keep' as const,
  }
  const tasks = curate(mergeAttempts(played), rule)
  const kept = tasks.filter(({ decision }) => decision === 'kept').map(({ taskId }) => taskId)
  if (options.output !== undefined) await writeResult(options.output, kept.map((taskId) => `${taskId}\n`).join(''))
  if (options.json === true) console.record({ rule, kept: kept.length, tasks })
  else console.out([renderTable(curationTable(tasks)), formatCuration(tasks)].join('\n\n'))
}

/** `0.9`, or a fraction such as `2/3`. */
function rate(text: string): number {
  const [over, under = '1', ...more] = text.split('/')
  const value = Number(over) / Number(under)
  if (over !== '' && more.length === 0 && value > 0 && value <= 1) return value
  throw new InvalidArgumentError(`Expected to be a rate between 0 and 1 such as 2/3, got ${JSON.stringify(text)}`)
}
