import { resolve } from 'node:path'
import { type Command, Option } from 'commander'
import { type OfficialFilesInput, writeOfficialFiles } from '../../activities/grading/official-files.ts'
import { requireSource } from '../../activities/grading/open-grading.ts'
import { resolveSuite } from '../../activities/grading/resolve-suite.ts'
import { readGiven, storePredictions } from '../../activities/grading/store-predictions.ts'
import { loadTasksAndFile } from '../../adapters/datasets/load-tasks.ts'
import { loadRecipe } from '../../adapters/recipes/load-recipe.ts'
import { findRun, type LonghaulConnection, startGrading } from '../../client/index.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { GradingRecord } from '../../contracts/grading.types.ts'
import type { GradingProfile } from '../../contracts/tasks.types.ts'
import type { GradePredictionsResult } from '../../contracts/workflows.types.ts'
import { isLogProfileName, LOG_PROFILES } from '../../grading/log-profiles.ts'
import { isSha256Hex } from '../../platform/hash.ts'
import type { CommandContext } from '../command-context.ts'
import { EXIT, type ExitCode } from '../output/exit-codes.ts'
import { launchRun } from './launch-run.ts'
import { openStore, openStoreIfThere } from '../local-stack.ts'
import { collect, examples, runName, runNames, type RunOptions, share, withRunOptions } from '../arguments/options.ts'
import { readRecipeArgument, recipeDirs } from '../arguments/recipe-argument.ts'
import { requireWritable } from '../output/require-writable.ts'
import { reportGrading } from '../output/show-report.ts'
import { judgeThreshold, parseThreshold, type Threshold } from '../arguments/evaluation-argument.ts'

interface GradingOptions extends RunOptions {
  recipe?: string
  set?: string[]
  profile?: GradingProfile
  minGraded: number
}

interface GradeOptions extends GradingOptions {
  suite: string
  runId?: string
  model?: string
  out?: string
  threshold?: Threshold
}

export function addGrade(program: Command, context: CommandContext): void {
  const command = program
    .command('grade')
    .argument(
      '<predictions>',
      'file .json or .jsonl in an official format, or the word gold for the data set’s patches',
    )
    .description('grade a file of predictions in fresh containers, as the data set’s own harness does')
    .requiredOption('--suite <suite>', 'rows FILE.jsonl, RECIPE:heldOut, RECIPE:train, or the hash of a stored suite')
    .option('--run-id <id>', 'the same as --run, under the harness’s name', runName)
    .option('--model <name>', 'model of SWE-rebench-V2’s predictions, which name none')
    .option('--out <dir>', 'write the harness’s own files there: logs/…, <model>.<run id>.json')
    .option('--threshold <rule>', "exit 3 unless it holds: 'pass@1.lower>=0.35', of graded patches", parseThreshold)
  withGradingOptions(command)
    .addHelpText(
      'after',
      examples(
        'longhaul grade preds.json --suite verified.jsonl --run-id my-model --out results',
        'longhaul grade gold --suite demo:heldOut --json',
      ),
    )
    .action((predictions: string, options: GradeOptions) => grade(predictions, options, context))
}

/** Options common to `grade` and `regrade`. */
function withGradingOptions(command: Command): Command {
  return withRunOptions(command)
    .addOption(
      new Option('--profile <profile>', 'grade every task as this harness does (default: each row’s own)').choices(
        Object.keys(LOG_PROFILES).filter(isLogProfileName),
      ),
    )
    .option(
      '--recipe <name|file>',
      'take the limits of containers from this recipe (default: the suite’s or the run’s own, else nightly)',
    )
    .option('-c, --set <key=value>', 'override a key of that recipe, repeatable: -c sandbox.limit.memGiB=8', collect)
    .option(
      '--min-graded <share>',
      'exit 2 when infrastructure has left a smaller share of the patches to be judged',
      share,
      0.95,
    )
}

/** The options that belong to the run's request. */
async function requestOf({ recipe, set, profile }: GradingOptions) {
  if (recipe === undefined && set !== undefined) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: 'Expected --recipe beside --set, which overrides a key of that recipe',
    })
  }
  const limits =
    recipe === undefined ? {} : (await readRecipeArgument({ recipe, ...(set === undefined ? {} : { set }) })).request
  return { ...limits, ...(profile === undefined ? {} : { profile }) }
}

async function grade(predictions: string, given: GradeOptions, context: CommandContext): Promise<void> {
  const options = { ...given, ...nameOf(given) }
  await requireWritable({ directories: { '--out': options.out } })
  const request = await requestOf(options)
  const read = isSha256Hex(predictions) ? predictions : await readGiven(predictions, options.model)
  const store = await openStore({ creates: true })
  // Read and stored here, so that a mistake costs no run and workers need not see this file.
  const suite = await resolveSuite(
    { store, loadTasks: loadTasksAndFile, loadRecipe: (input) => loadRecipe({ ...input, dirs: recipeDirs() }) },
    suiteArgument(options.suite),
  )
  const set = await storePredictions({ store, predictions: read, suite: suite.manifest })
  for (const line of describeSet(set)) context.console.err(line)
  await launchRun({
    options,
    context,
    start: (common) =>
      startGrading({
        ...common,
        predictions: set.hash,
        suite: suite.manifest.hash,
        ...(suite.recipe === null ? {} : { recipe: suite.recipe }),
        ...request,
      }),
    conclude: reportGrading({
      store,
      console: context.console,
      minGraded: options.minGraded,
      json: options.json === true,
      alsoDo: (result, record) => writeAndJudge(result, { ...options, store, record }),
    }),
  })
}

/** Writes the files and judges the threshold, if requested. */
async function writeAndJudge(
  { run, graded }: GradePredictionsResult,
  {
    out,
    threshold,
    store,
    record,
  }: GradeOptions & { store: OfficialFilesInput['store']; record: GradingRecord | null },
): Promise<{ codes: ExitCode[]; lines: string[]; facts: object }> {
  if (out !== undefined && record === null) {
    throw new LonghaulError({
      code: 'Artifact.Missing',
      message: `The grading ${run} is done, but its record cannot be read here, so --out has no files: set LONGHAUL_ARTIFACTS to the workers’ store`,
    })
  }
  const files = out === undefined ? [] : await writeOfficialFiles({ store, run, directory: resolve(out) })
  const judged =
    threshold === undefined || graded === null || graded.interval === null
      ? null
      : judgeThreshold(threshold, {
          mean: graded.mean,
          ...graded.interval,
          source: 'cluster bootstrap, widened for few tasks',
        })
  const isMissed = threshold !== undefined && judged?.met !== true
  return {
    codes: isMissed ? [judged === null ? EXIT.infra : EXIT.threshold] : [],
    lines: [...(judged === null ? [] : [judged.verdict]), ...files.map((path) => `report  ${path}`)],
    facts: { ...(out === undefined ? {} : { files }), ...(judged === null ? {} : { verdict: judged.verdict }) },
  }
}

function nameOf({ run, runId }: GradeOptions): { run?: string } {
  if (run !== undefined && runId !== undefined && run !== runId) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected one name, got --run ${run} and --run-id ${runId}`,
    })
  }
  const name = run ?? runId
  return name === undefined ? {} : { run: name }
}

/** A file by its absolute path: the suite's record names the origin of its rows. */
function suiteArgument(text: string): string {
  return /\.jsonl?$/.test(text) ? resolve(text) : text
}

function describeSet({ predictions, duplicates }: Awaited<ReturnType<typeof storePredictions>>): string[] {
  const faults = Map.groupBy(
    predictions.filter(({ fault }) => fault !== null),
    ({ fault }) => fault ?? '',
  )
  return [
    ...(duplicates.length === 0
      ? []
      : [
          `the file gives ids more than once (${duplicates.length}, such as ${duplicates[0]}); the last patch of each counts`,
        ]),
    ...[...faults].map(
      ([fault, of]) =>
        `${of.length} patches are ${fault === 'too-large' ? 'over 5 MB' : 'no Unicode text'}, such as that of ${of[0]?.taskId}: not run, an error in the official report`,
    ),
  ]
}

interface RegradeOptions extends GradingOptions {
  stage?: string[]
  strict?: true
}

export function addRegrade(program: Command, context: CommandContext): void {
  const command = program
    .command('regrade')
    .argument('<run>', 'name of a training run, an evaluation, or a run that graded predictions', runName)
    .description('grade the stored patches of a run again, without sampling; first verdicts stay')
    .option('--stage <name>', 'only patches of this stage, repeatable: dapo-1, eval-base (default: all)', runNames)
    .option('--strict', 'exit 3 when a verdict differs from the first one')
  withGradingOptions(command)
    .addHelpText(
      'after',
      examples(
        'longhaul regrade demo-2026-11-20-a --stage eval-rl',
        'longhaul regrade nightly-2026-11-21-a --profile swebench-4.1 --json',
      ),
    )
    .action((run: string, options: RegradeOptions) => regrade(run, options, context))
}

/**
 * A mistyped name costs no run. A run that the store here lacks, and the server knows, may be in the store of the workers, who look for it too.
 * @throws LonghaulError `Config.NotFound`
 */
async function requireSourceHere(
  store: ArtifactStore,
  { connection, run, stages }: { connection: LonghaulConnection; run: string; stages: readonly string[] },
): Promise<void> {
  try {
    await requireSource(store, { run, stages })
  } catch (error) {
    if ((await store.folders('runs/')).includes(run)) throw error
    const isKnown = await findRun({ connection, run }).then(
      () => true,
      () => false,
    )
    if (!isKnown) throw error
  }
}

async function regrade(run: string, options: RegradeOptions, context: CommandContext): Promise<void> {
  const request = await requestOf(options)
  const { stage: stages = [], strict } = options
  const store = await openStoreIfThere()
  await launchRun({
    options,
    context,
    start: async (common) => {
      if (store !== null) await requireSourceHere(store, { connection: common.connection, run, stages })
      return startGrading({ ...common, regrade: run, ...(stages.length === 0 ? {} : { stages }), ...request })
    },
    conclude: reportGrading({
      store,
      console: context.console,
      minGraded: options.minGraded,
      json: options.json === true,
      alsoDo: async ({ changed, counts: { resolved, unresolved, couldNotGrade } }) => {
        const all = resolved + unresolved + couldNotGrade
        const line = changed === 0 ? 'no verdict changed' : `${changed} of ${all} verdicts changed`
        const isRefused = strict === true && changed > 0
        return { codes: isRefused ? [EXIT.threshold] : [], lines: [line], facts: {} }
      },
    }),
  })
}
