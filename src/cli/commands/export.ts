import { type Command, Option } from 'commander'
import { EXPORT_FORMATS, type ExportFormat, type ExportSummary } from '../../activities/exports/export-summary.ts'
import { PREDICTION_LAYOUTS, type PredictionLayout } from '../../adapters/predictions/predictions.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { examples, integer, jsonOption, runPart } from '../arguments/options.ts'
import type { CommandContext } from '../command-context.ts'
import { openStore } from '../local-stack.ts'
import { type Console, untilInterrupted } from '../output/console.ts'
import { EXIT } from '../output/exit-codes.ts'
import { requireWritable } from '../output/require-writable.ts'

interface ExportOptions {
  format: ExportFormat
  out: string
  force?: true
  attempt?: number
  model?: string
  layout?: PredictionLayout
  license?: string
  json?: true
}

const FORMATS = `
Formats:
  csv           a row for each episode, harmless to spreadsheets
  parquet       the same columns, typed
  junit         an evaluation as JUnit XML: a test case for each task
  predictions   one attempt at every task of an evaluation, as official harnesses read it
  atif          a directory with Harbor's trajectory.json for each finished episode
  trajectories  a directory that is a Hugging Face data set: Parquet with turns and token ids, and its card

A stage is rft, a reinforce stage or an evaluation (eval-rl, or rl where no stage has that name). Everything comes from
stored records: no worker and no server has to run. Equal records give equal bytes. docs/exports.md lists the columns.
`

export function addExport(program: Command, context: CommandContext): void {
  program
    .command('export')
    .argument('<run[:stage]>', 'name of a run, or one of its stages or evaluations', runPart)
    .description('write a run, a stage or an evaluation as a file for other programs, finished or not')
    .addOption(new Option('--format <format>', 'what to write').choices(EXPORT_FORMATS).makeOptionMandatory())
    .requiredOption('--out <path>', 'where to write it; existing files are kept')
    .option('--force', 'replace an older export there')
    .option('--attempt <n>', 'predictions: which attempt at each task, from 1', integer({ name: '--attempt', min: 1 }))
    .option('--model <name>', 'predictions: model_name_or_path (default: the policy’s version)')
    .addOption(
      new Option(
        '--layout <layout>',
        'predictions: default jsonl for a file .jsonl, else json; preds is mini-swe-agent’s object',
      ).choices(PREDICTION_LAYOUTS),
    )
    .option('--license <word>', 'trajectories: licence of the collection on its card, such as cc-by-4.0')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      FORMATS +
        examples(
          'longhaul export demo-2026-11-20-a --format parquet --out episodes.parquet',
          'longhaul export demo-2026-11-20-a:dapo-1 --format csv --out dapo-1.csv',
          'longhaul export nightly-2026-11-21-a --format junit --out junit.xml',
          'longhaul export demo-2026-11-20-a:eval-rl --format predictions --out preds.json',
          'longhaul export demo-2026-11-20-a:eval-rl --format atif --out atif',
          'longhaul export demo-2026-11-20-a --format trajectories --license cc-by-4.0 --out dataset',
        ),
    )
    .action((subject: string, options: ExportOptions) => write(subject, options, context))
}

async function write(subject: string, options: ExportOptions, { console, exit }: CommandContext): Promise<void> {
  const { format, out, force, json } = options
  requireFitting(options)
  // The export itself refuses an existing path that is not an export.
  await requireWritable({ places: { '--out': out } })
  // Loaded here: few commands need it.
  const { exportRun } = await import('../../activities/exports/export-run.ts')
  const summary = await untilInterrupted(async (signal) =>
    exportRun({
      store: await openStore(),
      subject,
      format,
      place: { path: out, force: force === true },
      predictions: predictionOptions(options),
      license: options.license ?? null,
      signal,
    }),
  )
  if (json === true) console.record(summary)
  else printExport(summary, console)
  if ((summary.predictions?.unwritable.length ?? 0) > 0) exit(EXIT.infra)
}

export function predictionOptions({
  out,
  attempt = 1,
  model = null,
  layout,
}: {
  out: string
  attempt?: number | undefined
  model?: string | null | undefined
  layout?: PredictionLayout | undefined
}): { attempt: number; model: string | null; layout: PredictionLayout } {
  return { attempt, model, layout: layout ?? (out.endsWith('.jsonl') ? 'jsonl' : 'json') }
}

const ONLY_OF = {
  attempt: 'predictions',
  model: 'predictions',
  layout: 'predictions',
  license: 'trajectories',
} as const

/** Refuses options that the format would ignore. */
function requireFitting(options: ExportOptions): void {
  const { format } = options
  for (const name of Object.keys(ONLY_OF) as (keyof typeof ONLY_OF)[]) {
    if (options[name] === undefined || ONLY_OF[name] === format) continue
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected --${name} beside --format ${ONLY_OF[name]} only, got it beside --format ${format}`,
    })
  }
}

/** Reports on stdout what was written, and on stderr what is missing from it. */
export function printExport(summary: ExportSummary, console: Console): void {
  const { run, stages, format, out, bytes, files, episodes, tasks, predictions, evaluation, others } = summary
  const place = `of ${run}, ${stages.join(', ')}, in ${out} (${format}, ${bytes} bytes)`
  if (predictions !== undefined) {
    const { written, unwritable, missing } = predictions
    console.out(`${written} predictions ${place}`)
    if (missing.length > 0) console.err(`${missing.length} tasks have no such attempt, such as ${missing[0]}`)
    if (unwritable.length > 0) {
      console.err(`left out, because their patches are not UTF-8 and JSON cannot hold them: ${unwritable.join(', ')}`)
    }
  } else if (episodes !== undefined) {
    const { finished, unfinished, unreadable } = episodes
    const leftOut = files === undefined ? 'of them' : 'more were left out: they'
    if (files === undefined) console.out(`${finished + unfinished + unreadable} episodes ${place}`)
    else console.out(`${finished} trajectories ${place}`)
    if (unfinished > 0) console.err(`${unfinished} ${leftOut} are not finished`)
    if (unreadable > 0) console.err(`${unreadable} ${leftOut} have a corrupt record: longhaul ledger verify ${run}`)
  } else {
    console.out(`${tasks} tasks ${place}`)
    if (others !== undefined && others.length > 0) {
      const names = others.map((name) => `${run}:${name}`).join(', ')
      console.err(`this is the evaluation ${run}:${evaluation}; the others of the run are ${names}`)
    }
  }
}
