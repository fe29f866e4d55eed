import { type Command, InvalidArgumentError } from 'commander'
import { startEvaluation } from '../../client/index.ts'
import type { EvaluationRecord } from '../../contracts/evaluations.types.ts'
import type { EvaluateResult } from '../../contracts/workflows.types.ts'
import type { CommandContext } from '../command-context.ts'
import { describeFailure } from '../describe-failure.ts'
import { combineExitCodes, EXIT, type ExitCode, exitCodeOfOutcome } from '../exit-codes.ts'
import { announce, type Followed, followRun, type OnInterrupt } from '../follow-run.ts'
import { connectToStack, openStore } from '../local-stack.ts'
import { examples, withRecipeOptions, withRunOptions } from '../options.ts'
import { readRecipeArgument } from '../recipe-argument.ts'
import { judgeThreshold, parseThreshold, type ScoredInterval, type Threshold } from '../threshold.ts'
import { describeScore } from './train.ts'

interface EvaluateOptions {
  recipe: string
  seed?: number
  set?: string[]
  policy?: string
  threshold?: Threshold
  minGraded: number
  run?: string
  fresh?: true
  detach?: true
  onInterrupt?: OnInterrupt
  json?: true
}

export function addEvaluate(program: Command, context: CommandContext): void {
  const command = program.command('evaluate').description('evaluate a policy on a recipe’s held-out suite')
  withRunOptions(withRecipeOptions(command, 'nightly'))
    .option('--policy <policy>', 'base, promoted or a version (default: what the recipe says)')
    .option('--threshold <rule>', "exit 3 unless it holds: 'pass@1.lower>=0.35'", parseThreshold)
    .option('--min-graded <share>', 'exit 2 when fewer episodes were graded', share, 0.95)
    .addHelpText(
      'after',
      examples(
        'longhaul evaluate --policy base',
        "longhaul evaluate --recipe nightly --threshold 'pass@1.lower>=0.35' --json",
      ),
    )
    .action((options: EvaluateOptions) => evaluate(options, context))
}

async function evaluate(options: EvaluateOptions, { console, exit }: CommandContext): Promise<void> {
  const json = options.json === true
  const { request } = await readRecipeArgument(options)
  const connection = await connectToStack()
  try {
    const handle = await startEvaluation({
      connection,
      ...request,
      ...(options.policy === undefined ? {} : { policy: options.policy }),
      ...(options.run === undefined ? {} : { run: options.run }),
      fresh: options.fresh === true,
    })
    if (options.detach === true) {
      announce(handle, { console, json })
      if (!json) console.out(handle.workflowId)
      return
    }
    const followed = await followRun({ handle, console, json, onInterrupt: options.onInterrupt })
    exit(await finish(followed, options, console))
  } finally {
    await connection.close()
  }
}

async function finish(
  followed: Followed<EvaluateResult>,
  { threshold, minGraded, json }: EvaluateOptions,
  console: CommandContext['console'],
): Promise<ExitCode> {
  if (followed.kind === 'detached') return EXIT.interrupted
  const { outcome } = followed
  if (outcome.status !== 'completed') {
    const exitCode = followed.interrupted ? EXIT.interrupted : exitCodeOfOutcome(outcome)
    if (json === true) console.record({ event: 'done', exitCode, outcome })
    console.err(describeFailure(outcome))
    return exitCode
  }
  const { result } = outcome
  const store = await openStore()
  const record = await store.readRecord<EvaluationRecord>(result.evaluation.key).catch(() => null)
  const codes: ExitCode[] = [followed.interrupted ? EXIT.interrupted : EXIT.ok]
  const lines = [describeScore(result)]
  const graded = record === null ? null : gradedShare(record)
  if (graded !== null && graded < minGraded) {
    codes.push(EXIT.infra)
    lines.push(
      `too little was graded: ${(graded * 100).toFixed(1)} % < ${(minGraded * 100).toFixed(1)} %; this says nothing about the policy`,
    )
  } else if (threshold !== undefined) {
    const { met, verdict } = judgeThreshold(threshold, intervalOf(result, record))
    if (!met) codes.push(EXIT.threshold)
    lines.push(verdict)
  }
  const exitCode = combineExitCodes(codes)
  if (json === true) console.record({ event: 'done', exitCode, codes, result, graded, verdict: lines.at(-1) })
  else console.out(lines.join('\n'))
  return exitCode
}

function gradedShare({ tasks, infra }: EvaluationRecord): number {
  const graded = tasks.reduce((sum, { outcomes }) => sum + outcomes.length, 0)
  return graded / Math.max(1, graded + infra)
}

function intervalOf({ passAt1, sem }: EvaluateResult, record: EvaluationRecord | null): ScoredInterval {
  const interval = record?.interval ?? null
  if (interval !== null) return { mean: passAt1, ...interval, source: 'cluster bootstrap' }
  // Without the record only the standard error is at hand: 1.96 of them to each side.
  return { mean: passAt1, low: passAt1 - 1.96 * sem, high: passAt1 + 1.96 * sem, source: 'normal approximation' }
}

function share(text: string): number {
  const value = Number(text)
  if (text.trim() !== '' && value >= 0 && value <= 1) return value
  throw new InvalidArgumentError(`Expected to be a share between 0 and 1, got ${JSON.stringify(text)}`)
}
