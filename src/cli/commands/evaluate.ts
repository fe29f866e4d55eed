import type { Command } from 'commander'
import { startEvaluation } from '../../client/index.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { EvaluationRecord } from '../../contracts/evaluations.types.ts'
import { gradedShare } from '../../domain/statistics/comparability.ts'
import type { EvaluateResult } from '../../contracts/workflows.types.ts'
import type { CommandContext } from '../command-context.ts'
import { compareAndJudge } from '../output/compare-evaluations.ts'
import type { Console } from '../output/console.ts'
import { describeEvaluation, furtherEvaluations } from '../output/describe-evaluation.ts'
import {
  readEvaluationArgument,
  judgeThreshold,
  parseThreshold,
  type ScoredInterval,
  type Threshold,
} from '../arguments/evaluation-argument.ts'
import { combineExitCodes, EXIT, type ExitCode } from '../output/exit-codes.ts'
import { launchRun } from './launch-run.ts'
import { openStore } from '../local-stack.ts'
import {
  examples,
  type RunOptions,
  share,
  withRecipeOptions,
  withRegressionOptions,
  withRunOptions,
} from '../arguments/options.ts'
import { readRecipeArgument, type RecipeOptions } from '../arguments/recipe-argument.ts'
import { describeScore } from './train.ts'

interface EvaluateOptions extends RecipeOptions, RunOptions {
  policy?: string
  threshold?: Threshold
  baseline?: string
  maxRegression?: number
  confidence: number
  strict?: true
  minGraded: number
}

export function addEvaluate(program: Command, context: CommandContext): void {
  const command = program.command('evaluate').description('evaluate a policy on a recipe’s held-out suite')
  withRegressionOptions(withRunOptions(withRecipeOptions(command, 'nightly')))
    .option('--policy <policy>', 'base, promoted or a version (default: what the recipe says)')
    .option('--threshold <rule>', "exit 3 unless it holds: 'pass@1.lower>=0.35'", parseThreshold)
    .option('--baseline <evaluation>', 'compare with RUN:EVALUATION, RUN or FILE.json, as longhaul compare does')
    .option('--min-graded <share>', 'exit 2 when a smaller share of the episodes was graded', share, 0.95)
    .addHelpText(
      'after',
      examples(
        'longhaul evaluate --policy base',
        "longhaul evaluate --recipe nightly --threshold 'pass@1.lower>=0.35' --json",
        'longhaul evaluate --baseline baseline.json --max-regression 0.02',
      ),
    )
    .action((options: EvaluateOptions) => evaluate(options, context))
}

async function evaluate(options: EvaluateOptions, context: CommandContext): Promise<void> {
  const { policy } = options
  const { request } = await readRecipeArgument(options)
  const baseline = await readBaseline(options)
  await launchRun({
    options,
    context,
    start: (common) => startEvaluation({ ...common, ...request, ...(policy === undefined ? {} : { policy }) }),
    conclude: (result, exitCode) => finish(result, exitCode, { ...options, baseline, console: context.console }),
  })
}

/** Read before anything is started: a mistake in it costs no run. */
async function readBaseline({ baseline, maxRegression, strict }: EvaluateOptions): Promise<EvaluationRecord | null> {
  if (baseline !== undefined) return readEvaluationArgument(openStore, baseline)
  if (maxRegression === undefined && strict !== true) return null
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: 'Expected --baseline beside --max-regression and --strict',
  })
}

interface JudgeOptions extends Omit<EvaluateOptions, 'baseline'> {
  baseline: EvaluationRecord | null
}

async function finish(
  result: EvaluateResult,
  ended: ExitCode,
  options: JudgeOptions & { console: Console },
): Promise<ExitCode> {
  const { minGraded, json, console } = options
  const store = await openStore()
  const record = await store.readRecord<EvaluationRecord>(result.evaluation.key).catch(() => null)
  const codes = [ended]
  const further = record === null ? [] : await furtherEvaluations(store, result.run)
  const lines: string[] = []
  for (const one of further) lines.push(describeScore(one.score), ...(await describeEvaluation(store, one)))
  lines.push(describeScore(result), ...(record === null ? [] : await describeEvaluation(store, record)))
  const graded = record === null ? null : gradedShare(record)
  if (graded !== null && graded < minGraded) {
    codes.push(EXIT.infra)
    lines.push(
      `too little was graded: ${(graded * 100).toFixed(1)} % < ${(minGraded * 100).toFixed(1)} %; this says nothing about the policy`,
    )
  } else {
    for (const { code, verdict } of judge(result, record, options)) {
      codes.push(code)
      lines.push(verdict)
    }
  }
  const exitCode = combineExitCodes(codes)
  if (json === true)
    console.record({
      event: 'done',
      exitCode,
      codes,
      result,
      further: further.map(({ score, interval }) => ({ ...score, interval })),
      graded,
      verdict: lines.at(-1),
    })
  else console.out(lines.join('\n'))
  return exitCode
}

/** Threshold and baseline, as far as they were asked for. */
function judge(
  result: EvaluateResult,
  record: EvaluationRecord | null,
  { threshold, baseline, maxRegression, confidence, strict, minGraded }: JudgeOptions,
): { code: ExitCode; verdict: string }[] {
  const judged: { code: ExitCode; verdict: string }[] = []
  if (threshold !== undefined) {
    const { met, verdict } = judgeThreshold(threshold, intervalOf(result, record))
    judged.push({ code: met ? EXIT.ok : EXIT.threshold, verdict })
  }
  if (baseline === null) return judged
  if (record === null) {
    return [...judged, { code: EXIT.infra, verdict: 'the evaluation cannot be read here, so it was not compared' }]
  }
  const { codes, data } = compareAndJudge({
    before: baseline,
    after: record,
    confidence,
    intersect: false,
    maxRegression: maxRegression ?? 0,
    minDifference: null,
    strict: strict === true,
    minGraded,
  })
  const words = data.verdicts.map((verdict, index) => ({ code: codes[index] ?? EXIT.ok, verdict }))
  return [...judged, ...words]
}

function intervalOf({ passAt1, sem }: EvaluateResult, record: EvaluationRecord | null): ScoredInterval {
  const interval = record?.interval ?? null
  if (interval !== null) return { mean: passAt1, ...interval, source: 'cluster bootstrap, widened for few tasks' }
  // Without the record only the standard error is at hand: 1.96 of them to each side.
  return { mean: passAt1, low: passAt1 - 1.96 * sem, high: passAt1 + 1.96 * sem, source: 'normal approximation' }
}
