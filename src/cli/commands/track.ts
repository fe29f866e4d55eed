import type { Command } from 'commander'
import { requireRunWithEpisodes } from '../../activities/run/run-names.ts'
import { createRecipeReader } from '../../activities/runtime/stored-records.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { TrackerOutcome, TrackerRecipe } from '../../contracts/trackers.types.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import { examples, jsonOption, runName } from '../arguments/options.ts'
import { readRecipeArgument } from '../arguments/recipe-argument.ts'
import type { CommandContext } from '../command-context.ts'
import { openStore } from '../local-stack.ts'
import { untilInterrupted } from '../output/console.ts'
import { EXIT } from '../output/exit-codes.ts'

interface TrackOptions {
  recipe?: string
  points?: true
  dryRun?: true
  json?: true
}

const HELP = `
The trackers are those of the run's own recipe (trackers:), which workers send to after each record. What a tracker has is
not sent again. Variables that hold tokens are read here. Exit code 2: a tracker did not accept everything, and the message says why.
docs/training.md lists the metrics; wandb sync uploads what a tracker of kind wandb has written.
`

export function addTrack(program: Command, context: CommandContext): void {
  program
    .command('track')
    .argument('<run>', 'name of a run, finished or not', runName)
    .description('send the metrics of a run that its trackers (MLflow, TensorBoard, Weights & Biases) lack')
    .option(
      '--recipe <name|file>',
      'take the trackers of this recipe: for a run without any, or a tracker that has moved',
    )
    .option('--dry-run', 'print what is missing and send nothing')
    .option('--points', 'print every metric as one JSON object a line and send nothing, for other programs')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      HELP +
        examples(
          'longhaul track demo-2026-11-20-a',
          'longhaul track demo-2026-11-20-a --dry-run',
          'longhaul track demo-2026-11-20-a --recipe recipes/tracked.yaml',
          'longhaul track demo-2026-11-20-a --points > points.jsonl',
        ),
    )
    .action((run: string, options: TrackOptions) => track(run, options, context))
}

async function track(run: string, options: TrackOptions, { console, exit }: CommandContext): Promise<void> {
  const { dryRun, json, points, recipe } = options
  const asked = recipe === undefined ? null : (await readRecipeArgument({ recipe })).loaded.recipe
  const isDry = dryRun === true || points === true
  const store = await openStore({ writes: !isDry })
  await requireRunWithEpisodes(store, run)
  // Loaded here: no other command needs the trackers.
  const { readTrackedRun } = await import('../../activities/trackers/read-tracked-run.ts')
  const tracked = await readTrackedRun(store, run, { mayWrite: !isDry })
  if (points === true) {
    for (const { atMs, ...point } of tracked.points) console.record({ ...point, at: new Date(atMs).toISOString() })
    return
  }
  const trackers = trackersOf(asked ?? (await createRecipeReader(store)(run)), recipe ?? `of ${run}`)
  const { sendTo } = await import('../../activities/trackers/send-metrics.ts')
  const outcomes = await untilInterrupted((signal) =>
    sendTo(trackers, tracked, { store, env: process.env, isDry, signal }),
  )
  if (json === true) console.record({ run, dryRun: isDry, trackers: outcomes })
  else for (const outcome of outcomes) console.out(describe(outcome, isDry))
  if (outcomes.some(({ problem }) => problem !== null)) exit(EXIT.infra)
}

function trackersOf(read: Recipe, which: string): TrackerRecipe[] {
  // Recipes that an older version stored have no trackers.
  const trackers = (read.trackers as TrackerRecipe[] | undefined) ?? []
  if (trackers.length > 0) return trackers
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected trackers in the recipe ${which}, got none: name a recipe that has some with --recipe, or print the metrics with --points`,
  })
}

function describe({ tracker, points, sent, problem }: TrackerOutcome, isDry: boolean): string {
  const count = `${sent} of ${points} points ${isDry ? 'are missing there' : 'were new'}`
  return problem === null ? `${tracker}: ${count}` : `${tracker}: ${count}, not all: ${problem}`
}
