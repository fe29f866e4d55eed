import type { Command } from 'commander'
import { LonghaulError } from '../../contracts/errors.ts'
import { renderHtmlComparison, renderMarkdownComparison, renderTextComparison } from '../../report/comparison-tables.ts'
import type { CommandContext } from '../command-context.ts'
import { compareAndJudge } from '../output/compare-evaluations.ts'
import { readEvaluationArgument } from '../arguments/evaluation-argument.ts'
import { combineExitCodes } from '../output/exit-codes.ts'
import { openStore } from '../local-stack.ts'
import { evaluationName, examples, jsonOption, share, withRegressionOptions } from '../arguments/options.ts'
import { requireWritable, writeResult } from '../output/require-writable.ts'

interface CompareCommandOptions {
  maxRegression?: number
  minDifference?: number
  confidence: number
  strict?: true
  minGraded: number
  intersect?: true
  html?: string
  markdown?: string
  json?: true
}

export function addCompare(program: Command, context: CommandContext): void {
  const command = program
    .command('compare')
    .argument(
      '<before>',
      'RUN:EVALUATION, RUN (its last evaluation), or FILE.json with an evaluation record',
      evaluationName,
    )
    .argument('<after>', 'the same', evaluationName)
    .description('compare two evaluations task by task: difference with interval, flips, effort, power')
  withRegressionOptions(command)
    .option('--min-difference <x>', 'exit 3 unless delta.lower reaches it', signed)
    .option('--min-graded <share>', 'exit 2 when a smaller share of a side’s attempts was graded', share, 0.95)
    .option('--intersect', 'compare only the tasks that both evaluations have')
    .option('--html <file>', 'write the comparison there as HTML')
    .option('--markdown <file>', 'write the comparison there as Markdown')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples(
        'longhaul compare demo-2026-11-20-a:base demo-2026-11-20-a:rl',
        'longhaul compare baseline.json nightly-2026-11-21-a --max-regression 0.02 --json',
      ),
    )
    .action((before: string, after: string, options: CompareCommandOptions) => compare(before, after, options, context))
}

async function compare(
  beforeText: string,
  afterText: string,
  options: CompareCommandOptions,
  { console, exit }: CommandContext,
): Promise<void> {
  if (options.strict === true && options.maxRegression === undefined) {
    throw new LonghaulError({ code: 'Config.Invalid', message: 'Expected --max-regression beside --strict' })
  }
  await requireWritable({ files: { '--html': options.html, '--markdown': options.markdown } })
  const before = await readEvaluationArgument(openStore, beforeText)
  const after = await readEvaluationArgument(openStore, afterText)
  const { data, findings } = compareAndJudge({ before, after, ...rulesOf(options) })
  const codes = findings.map(({ code }) => code)
  const exitCode = combineExitCodes(codes)
  if (options.html !== undefined) await writeResult(options.html, renderHtmlComparison(data))
  if (options.markdown !== undefined) await writeResult(options.markdown, renderMarkdownComparison(data))
  if (options.json === true) {
    const side = ({ run, name, suite, score }: typeof before): object => ({ run, name, suite, policy: score.policy })
    const { comparison, comparability, verdicts } = data
    const sides = { before: side(before), after: side(after) }
    console.record({ event: 'done', exitCode, codes, verdicts, ...sides, comparability, comparison })
  } else console.out(renderTextComparison(data))
  exit(exitCode)
}

function rulesOf(options: CompareCommandOptions) {
  return {
    maxRegression: options.maxRegression ?? null,
    minDifference: options.minDifference ?? null,
    confidence: options.confidence,
    strict: options.strict === true,
    minGraded: options.minGraded,
    intersect: options.intersect === true,
  }
}

function signed(text: string): number {
  return text.startsWith('-') ? -share(text.slice(1)) : share(text)
}
