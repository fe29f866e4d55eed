import { type Command, Option } from 'commander'
import { PREDICTION_LAYOUTS, type PredictionLayout } from '../../adapters/predictions/predictions.ts'
import type { CommandContext } from '../command-context.ts'
import { predictionOptions, printExport } from './export.ts'
import { EXIT } from '../output/exit-codes.ts'
import { openStore } from '../local-stack.ts'
import { examples, integer, jsonOption, runName } from '../arguments/options.ts'
import { requireWritable } from '../output/require-writable.ts'

interface PredictionsOptions {
  out: string
  stage?: string
  attempt: number
  model?: string
  format?: PredictionLayout
  json?: true
}

export function addPredictions(program: Command, context: CommandContext): void {
  program
    .command('predictions')
    .argument('<run>', 'name of an evaluation or a training run', runName)
    .description('like longhaul export --format predictions, but it replaces an existing file')
    .requiredOption('--out <file>', 'where to write them')
    .option('--stage <name>', 'which evaluation, such as eval-rl (default: the only one)', runName)
    .option('--attempt <n>', 'which attempt at each task, from 1', integer({ name: '--attempt', min: 1 }), 1)
    .option('--model <name>', 'model_name_or_path (default: the policy’s version)')
    .addOption(
      new Option(
        '--format <layout>',
        'default: jsonl for a file .jsonl, else json; preds is mini-swe-agent’s object',
      ).choices(PREDICTION_LAYOUTS),
    )
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples(
        'longhaul predictions nightly-2026-11-21-a --out preds.json',
        'longhaul predictions demo-2026-11-20-a --stage eval-rl --model my-model --out preds.jsonl',
      ),
    )
    .action((run: string, options: PredictionsOptions) => write(run, options, context))
}

async function write(run: string, options: PredictionsOptions, { console, exit }: CommandContext): Promise<void> {
  const { out, stage, format, json } = options
  await requireWritable({ files: { '--out': out } })
  const { exportRun } = await import('../../activities/exports/export-run.ts')
  const chosen = predictionOptions({ ...options, layout: format })
  const summary = await exportRun({
    store: await openStore(),
    subject: stage === undefined ? run : `${run}:${stage}`,
    format: 'predictions',
    place: { path: out, force: true },
    predictions: chosen,
  })
  const { stages, predictions } = summary
  if (json === true) console.record({ run, stage: stages[0], layout: chosen.layout, out, ...predictions })
  else printExport(summary, console)
  if ((predictions?.unwritable.length ?? 0) > 0) exit(EXIT.infra)
}
