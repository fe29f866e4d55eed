import type { Command } from 'commander'
import {
  cancelRun,
  findBlockers,
  findRun,
  type FoundRun,
  type LonghaulConnection,
  pauseRun,
  queryProgress,
  resumeRun,
  type RunProgress,
  stopRunAfterIteration,
} from '../../client/index.ts'
import { makeRunHandle } from '../../client/run-handle.ts'
import type { CommandContext } from '../command-context.ts'
import { describeBlockers } from '../output/describe-blockers.ts'
import { describeFailure } from '../output/print-error.ts'
import { EXIT, exitCodeOfOutcome } from '../output/exit-codes.ts'
import { followRun } from './follow-run.ts'
import { uiLink, withConnection } from '../local-stack.ts'
import { examples, integer, jsonOption } from '../arguments/options.ts'
import { describeScore } from './train.ts'

/** Watching and steering a run that is under way. */
export function addRun(program: Command, context: CommandContext): void {
  const run = program.command('run').description('watch and steer runs')
  addStatus(run, context)
  run
    .command('pause')
    .argument('<run>')
    .description('start no new work; episodes in progress continue')
    .addOption(jsonOption())
    .action((name: string, options: Options) => steer(name, options, context, pauseRun))
  run
    .command('resume')
    .argument('<run>')
    .description('resume a paused run')
    .addOption(jsonOption())
    .action((name: string, options: Options) => steer(name, options, context, resumeRun))
  addStop(run, context)
  addBlockers(run, context)
}

interface Options {
  json?: true
}

interface Target {
  connection: LonghaulConnection
  workflowId: string
}

function addStatus(run: Command, { console, exit }: CommandContext): void {
  run
    .command('status')
    .argument('<run>', 'name of the run, or the id of its workflow')
    .description('show the progress of a run')
    .option('--follow', 'follow the run until it ends')
    .addOption(jsonOption())
    .addHelpText('after', examples('longhaul run status demo-2026-11-20-a --follow'))
    .action(async (name: string, { follow, json }: Options & { follow?: true }) => {
      await withRun(name, async (found, target) => {
        if (follow !== true) {
          const progress = found.status === 'RUNNING' ? await queryProgress(target) : null
          if (json === true) console.record({ ...found, progress })
          else console.out(describe(found, progress))
          return
        }
        const handle = makeRunHandle<unknown>({ ...target, attached: true, ownsConnection: false })
        const followed = await followRun({ handle, console, json: json === true, onInterrupt: 'detach' })
        if (followed.kind === 'detached') {
          exit(EXIT.interrupted)
          return
        }
        const { outcome } = followed
        if (json === true) console.record({ event: 'done', outcome })
        else if (outcome.status === 'completed') console.out(`${name} is complete; longhaul report shows its figures`)
        else console.err(describeFailure(outcome))
        exit(exitCodeOfOutcome(outcome))
      })
    })
}

function addBlockers(run: Command, { console, exit }: CommandContext): void {
  run
    .command('blockers')
    .argument('<run>', 'name of the run, or the id of its workflow')
    .description(
      'list what a run waits for, since when, on which part, and what to do; exit 2 where the run is blocked',
    )
    .option('--longer-than <seconds>', 'leave out waits that are shorter', integer({ name: 'seconds', min: 0 }), 30)
    .option('--all', 'include waits that may be long: tests, commands, a slot on busy workers')
    .addOption(jsonOption())
    .addHelpText('after', examples('longhaul run blockers demo-2026-11-20-a', 'longhaul run blockers RUN --json'))
    .action(async (name: string, { longerThan, all, json }: Options & { longerThan: number; all?: true }) => {
      await withRun(name, async (found, target) => {
        const isOpen = found.status === 'RUNNING'
        const look = isOpen ? await findBlockers({ ...target, longerThanMs: longerThan * 1000 }) : null
        if (json === true) console.record({ ...found, ...look })
        else console.out(look === null ? describe(found, null) : describeBlockers(look, { all: all === true }))
        if (look !== null && look.blockers.length > 0) exit(EXIT.infra)
      })
    })
}

function addStop(run: Command, context: CommandContext): void {
  run
    .command('stop')
    .argument('<run>')
    .description('end a run: after an iteration of the open stage, or now')
    .option(
      '--after-iteration <n>',
      'end the run after this iteration of the open stage',
      integer({ name: 'n', min: 1 }),
    )
    .option('--now', 'cancel the whole run')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples('longhaul run stop demo-2026-11-20-a --after-iteration 3', 'longhaul run stop demo-2026-11-20-a --now'),
    )
    .action(async (name: string, options: Options & { afterIteration?: number; now?: true }) => {
      const { afterIteration: iteration, now } = options
      if ((iteration === undefined) === (now === undefined)) {
        context.console.err('error: say either --after-iteration <n> or --now')
        context.exit(EXIT.usage)
        return
      }
      if (iteration !== undefined) {
        await steer(name, options, context, (target) => stopRunAfterIteration({ ...target, iteration }))
        return
      }
      await withRun(name, async (found, target) => {
        const changed = found.status === 'RUNNING'
        if (changed) await cancelRun(target)
        if (options.json === true) context.console.record({ workflowId: found.workflowId, changed })
        else context.console.out(changed ? `cancelling ${found.workflowId}` : `${found.workflowId} had ended already`)
      })
    })
}

function steer(
  name: string,
  { json }: Options,
  { console }: CommandContext,
  update: (target: Target) => Promise<RunProgress>,
): Promise<void> {
  return withRun(name, async (found, target) => {
    const progress = await update(target)
    if (json === true) console.record({ workflowId: found.workflowId, progress })
    else console.out(describe(found, progress))
  })
}

function withRun(name: string, action: (found: FoundRun, target: Target) => Promise<void>): Promise<void> {
  return withConnection(async (connection) => {
    const found = await findRun({ connection, run: name })
    await action(found, { connection, workflowId: found.workflowId })
  })
}

function describe({ workflowId, status, startedAt }: FoundRun, progress: RunProgress | null): string {
  const ui = uiLink(workflowId)
  return [
    `${workflowId}  ${status.toLowerCase()}, started ${startedAt.toISOString()}`,
    ...(progress === null ? [] : [`now     ${progress.phase}${progress.paused ? ' (paused)' : ''}`]),
    ...(progress?.waitingFor ? [`since   ${progress.waitingFor.since}`] : []),
    ...(progress?.stopAfterIteration ? [`stops   after iteration ${progress.stopAfterIteration}`] : []),
    ...(progress?.scores ?? []).map((score) => `score   ${describeScore(score)}`),
    ...(ui === null ? [] : [`UI      ${ui}`]),
  ].join('\n')
}
