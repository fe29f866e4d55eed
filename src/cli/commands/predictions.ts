import { writeFile } from 'node:fs/promises'
import { type Command, Option } from 'commander'
import { predictionsOfRun } from '../../activities/grading/run-predictions.ts'
import { PREDICTION_LAYOUTS, type PredictionLayout, writePredictions } from '../../adapters/predictions/predictions.ts'
import type { CommandContext } from '../command-context.ts'
import { EXIT } from '../output/exit-codes.ts'
import { openStore } from '../local-stack.ts'
import { examples, integer, jsonOption } from '../arguments/options.ts'

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
    .argument('<run>', 'name of an evaluation or a training run')
    .description('write the stored patches of a run as predictions that official harnesses read')
    .requiredOption('--out <file>', 'where to write them')
    .option('--stage <name>', 'which evaluation, such as eval-rl (default: the only one)')
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
  const { out, stage = null, attempt, model = null, json } = options
  const found = await predictionsOfRun({ store: await openStore(), run, stage, attempt, model })
  const layout = options.format ?? (out.endsWith('.jsonl') ? 'jsonl' : 'json')
  await writeFile(out, writePredictions(found.predictions, layout))
  const { predictions, unwritable, missing } = found
  if (json === true) {
    const empty = predictions.filter(({ patch }) => patch === '').length
    console.record({ run, stage: found.stage, layout, out, written: predictions.length, empty, unwritable, missing })
  } else {
    console.out(`${predictions.length} predictions of ${run}, ${found.stage}, attempt ${attempt}, in ${out}`)
    if (missing.length > 0) console.err(`${missing.length} tasks have no such attempt, such as ${missing[0]}`)
    if (unwritable.length > 0) {
      console.err(`left out, because their patches are not UTF-8 and JSON cannot hold them: ${unwritable.join(', ')}`)
    }
  }
  if (unwritable.length > 0) exit(EXIT.infra)
}
