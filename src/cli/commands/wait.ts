import type { Command } from 'commander'
import { type LonghaulConnection, type RunOutcome } from '../../client/index.ts'
import { makeRunHandle } from '../../client/watch-run.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { EvaluateResult } from '../../contracts/workflows.types.ts'
import { cancelReasonOfJob, readCiJob } from '../arguments/ci-job.ts'
import { examples, interruptOption, jsonOption, runOrWorkflow, withJudgeOptions } from '../arguments/options.ts'
import type { CommandContext } from '../command-context.ts'
import { EXIT, type ExitCode, exitCodeOfOutcome } from '../output/exit-codes.ts'
import {
  type JudgedEnding,
  type JudgeFiles,
  type JudgeOptions,
  prepareJudge,
  readJudgeFiles,
} from '../output/judge-evaluation.ts'
import { whereToRead } from '../output/describe-run.ts'
import { describeFailure } from '../output/console.ts'
import { requireRunThere, withConnection } from '../local-stack.ts'
import { concludeDetached, type Followed, followRun, type OnInterrupt } from './follow-run.ts'

type WaitOptions = JudgeOptions & { onInterrupt?: OnInterrupt }

export function addWait(program: Command, context: CommandContext): void {
  const command = program
    .command('wait')
    .argument('<run>', 'name of the run, or the id of its workflow', runOrWorkflow)
    .description('wait for a run that was started before, judge it by the same rules, and end with the same exit codes')
  withJudgeOptions(command)
    .addOption(interruptOption())
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples(
        'longhaul wait eval/nightly-2026-11-20-a',
        "longhaul wait eval/nightly-2026-11-20-a --threshold 'pass@1.lower>=0.35' --junit out/junit.xml",
      ),
    )
    .action((run: string, options: WaitOptions) => wait(run, options, context))
}

async function wait(run: string, options: WaitOptions, context: CommandContext): Promise<void> {
  const files = await readJudgeFiles(options)
  await withConnection(async (connection) => {
    const { workflowId, type } = await requireRunThere(connection, run)
    const target = { connection, workflowId }
    context.exit(
      type === 'evaluate'
        ? await waitForEvaluation(target, { ...options, files }, context)
        : await waitForOther(target, type, options, context),
    )
  })
}

interface Target {
  connection: LonghaulConnection
  workflowId: string
}

async function waitForEvaluation(
  target: Target,
  { files, ...options }: WaitOptions & { files: JudgeFiles },
  context: CommandContext,
): Promise<ExitCode> {
  const { console } = context
  const judge = await prepareJudge({ ...target, options, console, files })
  return judge.conclude(target.workflowId, endingOf(await follow<EvaluateResult>(target, options, context)))
}

/** The ending of a followed evaluation, for the judge. */
export function endingOf(followed: Followed<EvaluateResult>): JudgedEnding {
  if (followed.kind === 'detached') return { kind: 'detached' }
  const { outcome, interrupted } = followed
  if (outcome.status === 'completed') return { kind: 'completed', result: outcome.result, interrupted }
  return { kind: 'unfinished', outcome, exitCode: interrupted ? EXIT.interrupted : exitCodeOfOutcome(outcome) }
}

async function waitForOther(
  target: Target,
  type: string,
  options: WaitOptions,
  context: CommandContext,
): Promise<ExitCode> {
  const { threshold, baseline, junit, summary, json } = options
  if ([threshold, baseline, junit, summary].some((option) => option !== undefined)) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected an evaluation beside --threshold, --baseline, --junit and --summary, but ${target.workflowId} is a ${type}`,
    })
  }
  const followed = await follow<unknown>(target, options, context)
  if (followed.kind === 'detached') return concludeDetached(context.console, json === true)
  const { outcome, interrupted } = followed
  const exitCode = interrupted ? EXIT.interrupted : exitCodeOfOutcome(outcome)
  if (json === true) context.console.record({ event: 'done', exitCode, outcome })
  else printOutcome(outcome, { ...target, type }, context)
  return exitCode
}

function printOutcome(
  outcome: RunOutcome<unknown>,
  { workflowId, type }: Target & { type: string },
  { console }: CommandContext,
): void {
  if (outcome.status === 'completed') console.out(`${workflowId} is complete; ${whereToRead(type, outcome.result)}`)
  else console.err(describeFailure(outcome))
}

function follow<T>(
  target: Target,
  { json, onInterrupt }: WaitOptions,
  { console }: CommandContext,
): Promise<Followed<T>> {
  const job = readCiJob()
  return followRun({
    handle: makeRunHandle<T>({ ...target, attached: true, ownsConnection: false }),
    console,
    json: json === true,
    onInterrupt,
    ...(job === null ? {} : { cancelReason: cancelReasonOfJob(job) }),
  })
}
