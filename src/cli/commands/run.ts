import { type Command, Option } from 'commander'
import {
  findBlockers,
  type FoundRun,
  listRuns,
  type LonghaulConnection,
  lookAtRun,
  pauseRun,
  requestCancel,
  requeueTask,
  resumeRun,
  setRunLimits,
  type SteerAnswer,
  type SteerInput,
  stopRunAfterIteration,
  isOpen,
} from '../../client/index.ts'
import { makeRunHandle, type RunHandle } from '../../client/watch-run.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { CommandContext } from '../command-context.ts'
import { describeBlockers } from '../output/describe-blockers.ts'
import { describeAnswer, describeRun, describeRuns, type Ended, whereToRead } from '../output/describe-run.ts'
import { describeFailure } from '../output/console.ts'
import { EXIT, exitCodeOfOutcome } from '../output/exit-codes.ts'
import { concludeDetached, followRun } from './follow-run.ts'
import { addRunRemove } from './run-remove.ts'
import { requireRunThere, withConnection } from '../local-stack.ts'
import { examples, integer, jsonOption, runOrWorkflow, taskId } from '../arguments/options.ts'

export function addRun(program: Command, context: CommandContext): void {
  const run = program.command('run').description('watch and steer runs')
  addList(run, context)
  addStatus(run, context)
  addBlockers(run, context)
  withSteering(run.command('pause'))
    .description('start no new work; episodes in progress continue')
    .option('--hard', 'hold episodes too, after the turns under way')
    .addHelpText('after', examples('longhaul run pause demo-2026-11-20-a', 'longhaul run pause RUN --hard --dry-run'))
    .action((name: string, options: SteerOptions & { hard?: true }) =>
      steer(name, options, context, (input) => pauseRun({ ...input, mode: options.hard === true ? 'hard' : 'soft' })),
    )
  withSteering(run.command('resume'))
    .description('resume a paused run')
    .addHelpText('after', examples('longhaul run resume demo-2026-11-20-a'))
    .action((name: string, options: SteerOptions) => steer(name, options, context, resumeRun))
  withSteering(run.command('set-limits'))
    .description('change the concurrency of a run, until the next change or the end of the run')
    .requiredOption(
      '--concurrency <n|recipe>',
      'concurrent tasks (of a grading: patches); recipe restores the recipe’s limit',
      concurrency,
    )
    .addHelpText('after', examples('longhaul run set-limits demo-2026-11-20-a --concurrency 8'))
    .action((name: string, options: SteerOptions & { concurrency: number | 'recipe' }) =>
      steer(name, options, context, (input) =>
        setRunLimits({ ...input, concurrency: options.concurrency === 'recipe' ? null : options.concurrency }),
      ),
    )
  withSteering(run.command('requeue'))
    .argument('<task>', 'id of a task of the open rollout', taskId)
    .description('play a task again: cancel it first if it is open, replace its lost episodes if it has ended')
    .addHelpText('after', examples('longhaul run requeue demo-2026-11-20-a synthetic__repair-000123'))
    .action((name: string, task: string, options: SteerOptions) =>
      steer(name, options, context, (input) => requeueTask({ ...input, task })),
    )
  withSteering(run.command('cancel'))
    .description('end a run after it has closed its sandboxes and released its leases')
    .addHelpText(
      'after',
      examples('longhaul run cancel demo-2026-11-20-a --dry-run', 'longhaul run cancel demo-2026-11-20-a'),
    )
    .action((name: string, options: SteerOptions) => cancel(name, options, context))
  addStop(run, context)
  addRunRemove(run, context)
}

interface Options {
  json?: true
}

interface SteerOptions extends Options {
  dryRun?: true
}

interface Target {
  connection: LonghaulConnection
  workflowId: string
}

/** Arguments and options of every command that changes a run. */
function withSteering(command: Command): Command {
  return command
    .argument('<run>', 'name of the run, or the id of its workflow', runOrWorkflow)
    .option('--dry-run', 'say what would change, and change nothing')
    .addOption(jsonOption())
}

/** Commands that only read accept `--dry-run` too, so that a script may add it everywhere. */
export function dryRunOfReader(): Option {
  return new Option('--dry-run', 'reads only, with or without it').hideHelp()
}

function concurrency(text: string): number | 'recipe' {
  return text === 'recipe' ? text : integer({ name: '--concurrency', min: 1 })(text)
}

function addList(run: Command, { console }: CommandContext): void {
  run
    .command('list')
    .description(
      'list runs, those under way first, then the last ended: kind, state, dates, score; needs only the Temporal server, no worker',
    )
    .option('--open', 'only runs under way')
    .option('--filter <query>', 'a filter over search attributes, such as "Model = \'qwen3-4b\'"')
    .option('--limit <n>', 'at most this many', integer({ name: '--limit', min: 1 }), 20)
    .addOption(dryRunOfReader())
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples('longhaul run list --open', 'longhaul run list --filter "Split = \'synthetic/eval\'"'),
    )
    .action(async ({ open, filter, limit, json }: Options & { open?: true; filter?: string; limit: number }) => {
      await withConnection(async (connection) => {
        const query = { ...(open === true ? { open } : {}), ...(filter === undefined ? {} : { filter }) }
        const runs = await listRuns({ connection, limit, scores: true, ...query })
        if (json === true) console.record({ runs })
        else console.out(runs.length === 0 ? 'no runs' : describeRuns(runs, console.columns ?? null))
      })
    })
}

function addStatus(run: Command, { console, exit }: CommandContext): void {
  run
    .command('status')
    .argument('<run>', 'name of the run, or the id of its workflow', runOrWorkflow)
    .description('show the progress of a run; if no worker answers, show what the Temporal server knows')
    .option('--follow', 'follow the run until it ends')
    .addOption(dryRunOfReader())
    .addOption(jsonOption())
    .addHelpText('after', examples('longhaul run status demo-2026-11-20-a --follow'))
    .action(async (name: string, { follow, json }: Options & { follow?: true }) => {
      await withRun(name, async (found, target) => {
        if (follow !== true) {
          const look = isOpen(found.status) ? await lookAtRun(target) : await lookAtEnd(target)
          if (json === true) console.record({ ...found, progress: null, ...look })
          else console.out(describeRun(found, look))
          return
        }
        const handle = handleOf(target)
        const followed = await followRun({ handle, console, json: json === true, onInterrupt: 'detach' })
        if (followed.kind === 'detached') {
          exit(concludeDetached(console, json === true))
          return
        }
        const { outcome } = followed
        const exitCode = exitCodeOfOutcome(outcome)
        if (json === true) console.record({ event: 'done', exitCode, outcome })
        else if (outcome.status === 'completed')
          console.out(`${name} is complete; ${whereToRead(found.type, outcome.result)}`)
        else console.err(describeFailure(outcome))
        exit(exitCode)
      })
    })
}

function handleOf(target: Target): RunHandle<unknown> {
  return makeRunHandle<unknown>({ ...target, attached: true, ownsConnection: false })
}

/** Null if the ending cannot be read, as without the keys of encrypted histories: the status is still worth printing. */
async function lookAtEnd(target: Target): Promise<Ended | null> {
  const outcome = await handleOf(target)
    .outcome()
    .catch(() => null)
  return outcome === null ? null : { outcome }
}

function addBlockers(run: Command, { console, exit }: CommandContext): void {
  run
    .command('blockers')
    .argument('<run>', 'name of the run, or the id of its workflow', runOrWorkflow)
    .description('list what a run waits for, since when, on which part, and what to do; exit 2 if the run is blocked')
    .option('--longer-than <seconds>', 'leave out waits that are shorter', integer({ name: 'seconds', min: 0 }), 30)
    .option('--all', 'include waits that may be long: tests, commands, a slot on busy workers')
    .addOption(dryRunOfReader())
    .addOption(jsonOption())
    .addHelpText('after', examples('longhaul run blockers demo-2026-11-20-a', 'longhaul run blockers RUN --json'))
    .action(async (name: string, { longerThan, all, json }: Options & { longerThan: number; all?: true }) => {
      await withRun(name, async (found, target) => {
        const look = isOpen(found.status) ? await findBlockers({ ...target, longerThanMs: longerThan * 1000 }) : null
        if (json === true) console.record({ ...found, ...look })
        else console.out(look === null ? describeRun(found, null) : describeBlockers(look, { all: all === true }))
        if (look !== null && look.blockers.length > 0) exit(EXIT.infra)
      })
    })
}

function addStop(run: Command, context: CommandContext): void {
  withSteering(run.command('stop'))
    .description('end a run: after an iteration of the open stage, or now')
    .option(
      '--after-iteration <n>',
      'end the run after this iteration of the open stage',
      integer({ name: 'n', min: 1 }),
    )
    .option('--now', 'cancel the whole run')
    .addHelpText(
      'after',
      examples('longhaul run stop demo-2026-11-20-a --after-iteration 3', 'longhaul run stop demo-2026-11-20-a --now'),
    )
    .action(async (name: string, options: SteerOptions & { afterIteration?: number; now?: true }) => {
      const { afterIteration: iteration, now } = options
      if ((iteration === undefined) === (now === undefined)) {
        throw new LonghaulError({
          code: 'Config.Invalid',
          message: `Expected either --after-iteration <n> or --now, got ${now === undefined ? 'neither' : 'both'}`,
        })
      }
      if (iteration === undefined) await cancel(name, options, context)
      else await steer(name, options, context, (input) => stopRunAfterIteration({ ...input, iteration }))
    })
}

function cancel(name: string, { json, dryRun }: SteerOptions, { console }: CommandContext): Promise<void> {
  return withRun(name, async (_found, target) => {
    const answer = await requestCancel({ ...target, dryRun: dryRun === true })
    const { workflowId, changed, note } = answer
    if (json === true) console.record({ ...answer, ...(dryRun === true ? { dryRun } : {}) })
    else if (!changed) console.out(`${workflowId}: nothing changed, ${note ?? ''}`)
    else
      console.out(
        dryRun === true ? `would cancel ${workflowId}` : `cancelling ${workflowId}${note === null ? '' : `; ${note}`}`,
      )
  })
}

function steer(
  name: string,
  { json, dryRun }: SteerOptions,
  { console }: CommandContext,
  action: (input: SteerInput) => Promise<SteerAnswer>,
): Promise<void> {
  return withRun(name, async (found, target) => {
    const { workflowId, status } = found
    if (!isOpen(status)) {
      const note = `it has ended already: ${status.toLowerCase()}`
      if (json === true) console.record({ workflowId, changed: false, pending: false, progress: null, note })
      else console.out(`${workflowId}: nothing changed, ${note}`)
      return
    }
    const answer = await action({ ...target, dryRun: dryRun === true })
    if (json === true) console.record({ ...answer, ...(dryRun === true ? { dryRun } : {}) })
    else console.out(describeAnswer(found, answer, dryRun === true))
  })
}

function withRun(name: string, action: (found: FoundRun, target: Target) => Promise<void>): Promise<void> {
  return withConnection(async (connection) => {
    const found = await requireRunThere(connection, name)
    await action(found, { connection, workflowId: found.workflowId })
  })
}
