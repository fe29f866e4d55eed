import { type Command, Option } from 'commander'
import { loadTasks } from '../../adapters/datasets/load-tasks.ts'
import { startGate } from '../../client/index.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { GateReport } from '../../contracts/gates.types.ts'
import type { SuiteSource } from '../../contracts/tasks.types.ts'
import type { GateSuiteResult } from '../../contracts/workflows.types.ts'
import { gateTables, formatGate } from '../../report/suite-table.ts'
import { renderTable } from '../../report/text-report.ts'
import type { CommandContext } from '../command-context.ts'
import type { Console } from '../output/console.ts'
import { combineExitCodes, EXIT, type ExitCode } from '../output/exit-codes.ts'
import { type GateSourceOptions, isRowsFile, readGateSource } from '../arguments/gate-source.ts'
import { launchRun } from './launch-run.ts'
import { openStoreIfThere } from '../local-stack.ts'
import { collect, examples, integer, type RunOptions, withRunOptions } from '../arguments/options.ts'
import { requireWritableSuite, writePassedRows } from '../output/write-suite.ts'
import { requireWritable, writeResult } from '../output/require-writable.ts'

interface GateOptions extends GateSourceOptions, RunOptions {
  evidence?: string
  output?: string
}

export function addGate(tasks: Command, context: CommandContext): void {
  const command = tasks
    .command('gate')
    .argument('[suite]', 'a .jsonl or .json file of rows, or a recipe’s suite: demo (= demo:heldOut), demo:train')
    .description(
      'verify the images of a suite, grade gold and empty patch of every task, and report; durable, nothing is graded twice',
    )
    .option(
      '--repeats <n>',
      'times the gold patch is graded (default: the recipe’s, else 3; the paper’s is 50)',
      integer({ name: '--repeats', min: 1 }),
    )
    .option(
      '--recipe <name|file>',
      'recipe whose limits apply to a file of rows; without a file, whose suite is gated (default: demo)',
    )
    .addOption(
      new Option('--suite <which>', 'which suite of the recipe (default: heldOut)').choices(['train', 'heldOut']),
    )
    .option('--seed <n>', 'another seed for every random choice', integer({ name: '--seed' }))
    .option('-c, --set <key=value>', 'override a key of the recipe, repeatable', collect)
    .option('--evidence <file>', 'write what tasks import --evidence reads: JSONL for hidden-names and deterministic')
    .option('--output <file>', 'write the rows of the tasks that passed as a suite of their own')
  withRunOptions(command)
    .addHelpText(
      'after',
      examples(
        'longhaul tasks gate demo',
        'longhaul tasks gate rows.jsonl --repeats 50 --evidence evidence.jsonl',
        "longhaul tasks import rows.jsonl --filter hidden-names --filter 'deterministic>=50' --evidence evidence.jsonl --output curated.jsonl",
      ),
    )
    .addHelpText(
      'after',
      'Exit: 0 every task passed; 2 some could not be gated (or the run failed); 3 all were gated and some are refused.',
    )
    .action((suite: string | undefined, options: GateOptions) => gate(suite, options, context))
}

async function gate(suite: string | undefined, options: GateOptions, context: CommandContext): Promise<void> {
  const { request, source } = await readGateSource(suite, options)
  if (options.output !== undefined && source.kind !== 'rows') {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: 'Expected --output only beside a file of rows (longhaul tasks import or synthesize write one)',
    })
  }
  await requireWritable({ files: { '--evidence': options.evidence } })
  await requireWritableSuite(options.output)
  // Checked here; workers read the file again. Files that a recipe names may exist only on their machines.
  if (isRowsFile(suite)) await loadTasks(source)
  await launchRun({
    options,
    context,
    start: (common) => startGate({ ...common, ...request }),
    conclude: (result, exitCode) => finish(result, exitCode, { ...options, source, console: context.console }),
  })
}

async function finish(
  result: GateSuiteResult,
  ended: ExitCode,
  options: Pick<GateOptions, 'evidence' | 'output' | 'json'> & { source: SuiteSource; console: Console },
): Promise<ExitCode> {
  const { console } = options
  const { store, report } = await readReport(result)
  if (options.evidence !== undefined) await writeResult(options.evidence, await store.get(result.evidence))
  if (options.output !== undefined && options.source.kind === 'rows') {
    await writePassedRows({ path: options.source.path, report, output: options.output })
  }
  const exitCode = combineExitCodes([ended, exitCodeOfGate(report)])
  if (options.json === true) console.record({ event: 'done', exitCode, result, report })
  else console.out([...gateTables(report).map(renderTable), formatGate(report), `run ${result.run}`].join('\n\n'))
  return exitCode
}

async function readReport({ report: { key } }: GateSuiteResult): Promise<{ store: ArtifactStore; report: GateReport }> {
  const store = await openStoreIfThere()
  const report = await store?.readRecord<GateReport>(key)
  if (store !== null && report) return { store, report }
  throw new LonghaulError({
    code: 'Artifact.Missing',
    message: 'The gate is done, but its report cannot be read here: set LONGHAUL_ARTIFACTS to the workers’ store',
    details: { key },
  })
}

export function exitCodeOfGate({ counts, tasks }: Pick<GateReport, 'counts' | 'tasks'>): ExitCode {
  if (counts['could-not-gate'] > 0) return EXIT.infra
  return counts.passed === tasks ? EXIT.ok : EXIT.threshold
}
