import { type Command, Option } from 'commander'
import {
  cancelReasonOf,
  evaluationRequestHash,
  type LonghaulConnection,
  type RunHandle,
  startEvaluation,
} from '../../client/index.ts'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import type { EvaluateResult } from '../../contracts/workflows.types.ts'
import {
  cancelReasonOfJob,
  type CiJob,
  isCancelOfJob,
  type OncePer,
  readCiJob,
  runNameOfJob,
} from '../arguments/ci-job.ts'
import {
  examples,
  policyName,
  type RunOptions,
  withJudgeOptions,
  withRecipeOptions,
  withRunOptions,
} from '../arguments/options.ts'
import {
  parseSettings,
  type RecipeArgument,
  readRecipeArgument,
  type RecipeOptions,
} from '../arguments/recipe-argument.ts'
import type { CommandContext } from '../command-context.ts'
import { type JudgeOptions, prepareJudge, readJudgeFiles } from '../output/judge-evaluation.ts'
import { withConnection } from '../local-stack.ts'
import { announceClosing, announceDetached, type Followed, followRun } from './follow-run.ts'
import { endingOf } from './wait.ts'

interface EvaluateOptions extends RecipeOptions, RunOptions, JudgeOptions {
  policy?: string
  oncePer: OncePer
  json?: true
}

export function addEvaluate(program: Command, context: CommandContext): void {
  const command = program.command('evaluate').description('evaluate a policy on a recipe’s held-out suite')
  withJudgeOptions(withRunOptions(withRecipeOptions(command, 'nightly')))
    .option('--policy <policy>', 'promoted, base, kept or a version (default: the recipe’s)', policyName)
    .addOption(
      new Option('--once-per <scope>', 'which CI jobs share a run: those of one pipeline or of one commit')
        .choices(['pipeline', 'commit'])
        .default('pipeline'),
    )
    .addHelpText(
      'after',
      examples(
        'longhaul evaluate --policy base',
        "longhaul evaluate --recipe nightly --threshold 'pass@1.lower>=0.35' --json",
        'longhaul evaluate --baseline baseline.json --max-regression 0.02 --strict',
        'longhaul evaluate --junit out/junit.xml --summary "$GITHUB_STEP_SUMMARY"',
        'run=$(longhaul evaluate --detach); longhaul wait "$run"',
      ),
    )
    .addHelpText(
      'after',
      `
It needs only a Temporal server. In CI (GitHub Actions, GitLab; elsewhere LONGHAUL_COMMIT and LONGHAUL_PIPELINE) a job that is run
again joins the run that it started, or shows what that run found; --fresh starts another. See docs/ci.md.
`,
    )
    .action((options: EvaluateOptions) => evaluate(options, context))
}

/** After this many restarts, a run that other jobs keep cancelling stays cancelled. */
const MOST_RESTARTS = 5

async function evaluate(options: EvaluateOptions, context: CommandContext): Promise<void> {
  const { console, exit } = context
  requireWaiting(options)
  const files = await readJudgeFiles(options)
  const job = readCiJob()
  const { request } = await readAsked(options, job)
  const json = options.json === true
  await withConnection(async (connection) => {
    const onClosing = announceClosing(console)
    const start = (): Promise<RunHandle<EvaluateResult>> => startAsked({ connection, options, request, job, onClosing })
    if (options.detach === true) {
      const handle = await start()
      await announceDetached(handle, { console, json })
      return
    }
    const judge = await prepareJudge({ connection, options, console, files })
    const { workflowId, followed } = await follow({ connection, options, context, job, start })
    exit(await judge.conclude(workflowId, endingOf(followed)))
  })
}

/** A name that is unknown here may be in the workers' store, which a CI job cannot see; workers refuse an unknown name within seconds. */
async function readAsked(options: EvaluateOptions, job: CiJob | null): Promise<Pick<RecipeArgument, 'request'>> {
  try {
    return await readRecipeArgument(options)
  } catch (error) {
    const { recipe, seed, set = [] } = options
    const isName = !recipe.includes('/') && !/\.ya?ml$/.test(recipe)
    if (job === null || !isName || !isLonghaulError(error) || error.code !== 'Config.NotFound') throw error
    const overrides = parseSettings(set, seed)
    return { request: { recipe, ...(Object.keys(overrides).length === 0 ? {} : { overrides }) } }
  }
}

/** A detached command ends before there is anything to judge. */
function requireWaiting({ detach, threshold, baseline, junit, summary }: EvaluateOptions): void {
  if (detach !== true || [threshold, baseline, junit, summary].every((option) => option === undefined)) return
  throw new LonghaulError({
    code: 'Config.Invalid',
    message:
      'Expected --threshold, --baseline, --junit and --summary with longhaul wait, which ends with the run; --detach ends at once',
  })
}

interface StartInput {
  connection: LonghaulConnection
  options: EvaluateOptions
  request: RecipeArgument['request']
  job: CiJob | null
  onClosing: (workflowId: string) => void
}

function startAsked({
  connection,
  options,
  request: asked,
  job,
  onClosing,
}: StartInput): Promise<RunHandle<EvaluateResult>> {
  const { policy, fresh, oncePer } = options
  const request = { ...asked, ...(policy === undefined ? {} : { policy }) }
  const run =
    options.run ??
    (job === null || fresh === true
      ? undefined
      : runNameOfJob({ job, oncePer, recipe: request.recipe, request: evaluationRequestHash(request) }))
  return startEvaluation({
    connection,
    ...request,
    ...(run === undefined ? {} : { run }),
    fresh: fresh === true,
    onClosing,
    ...(job === null ? {} : { memo: memoOf(job) }),
  })
}

function memoOf({ commit, pipeline, job, url }: CiJob): Record<string, string> {
  return { commit, ciJob: job, ...(pipeline === null ? {} : { pipeline }), ...(url === null ? {} : { ciUrl: url }) }
}

interface FollowInput {
  connection: LonghaulConnection
  options: EvaluateOptions
  context: CommandContext
  job: CiJob | null
  start: () => Promise<RunHandle<EvaluateResult>>
}

/**
 * Jobs share a run, and a cancelled job cancels it, since it does not know of the others. A job that still waits restarts the run from its
 * records; so does a job that is run again while the run that it cancelled is still closing.
 */
async function follow({ connection, options, context, job, start }: FollowInput): Promise<{
  workflowId: string
  followed: Followed<EvaluateResult>
}> {
  const { console } = context
  for (let restarts = 0; ; restarts++) {
    const handle = await start()
    const { workflowId } = handle
    const followed = await followRun({
      handle,
      console,
      json: options.json === true,
      onInterrupt: options.onInterrupt,
      ...(job === null ? {} : { cancelReason: cancelReasonOfJob(job) }),
    })
    const isCancelled = followed.kind === 'ended' && !followed.interrupted && followed.outcome.status === 'cancelled'
    if (job === null || !isCancelled || restarts === MOST_RESTARTS) return { workflowId, followed }
    const reason = await cancelReasonOf({ connection, workflowId })
    if (!isCancelOfJob(reason)) return { workflowId, followed }
    console.err(`${reason}, which cancelled the run; it goes on from its records for this job`)
  }
}
