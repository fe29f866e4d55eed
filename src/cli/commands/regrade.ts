import type { Command } from 'commander'
import { startGrading } from '../../client/index.ts'
import { isChanged } from '../../domain/grading-rules.ts'
import type { CommandContext } from '../command-context.ts'
import { EXIT } from '../exit-codes.ts'
import { announce, followRun } from '../follow-run.ts'
import { connectToStack, openStore } from '../local-stack.ts'
import { collect, examples } from '../options.ts'
import { finishGrading } from '../show-grading.ts'
import { type GradingOptions, requestOf, withGradingOptions } from './grade.ts'

interface RegradeOptions extends GradingOptions {
  stage: string[]
  strict?: true
}

export function addRegrade(program: Command, context: CommandContext): void {
  const command = program
    .command('regrade')
    .argument('<run>', 'name of a training run, an evaluation, or a run that graded predictions')
    .description('grade the stored patches of a run again, without sampling; first verdicts stay')
    .option('--stage <name>', 'only patches of this stage, repeatable: dapo-1, eval-base (default: all)', collect, [])
    .option('--strict', 'exit 3 when a verdict is not the first one')
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

async function regrade(run: string, options: RegradeOptions, { console, exit }: CommandContext): Promise<void> {
  const json = options.json === true
  const request = await requestOf(options)
  const store = await openStore()
  const connection = await connectToStack()
  try {
    const handle = await startGrading({
      connection,
      regrade: run,
      ...(options.stage.length === 0 ? {} : { stages: options.stage }),
      ...request,
      fresh: options.fresh === true,
    })
    if (options.detach === true) {
      announce(handle, { console, json })
      if (!json) console.out(handle.workflowId)
      return
    }
    const followed = await followRun({ handle, console, json, onInterrupt: options.onInterrupt })
    exit(
      await finishGrading(
        followed,
        {
          store,
          minGraded: options.minGraded,
          json,
          finally: async ({ instances }) => {
            const changed = instances.filter(isChanged).length
            const line = changed === 0 ? 'no verdict changed' : `${changed} of ${instances.length} verdicts changed`
            const isRefused = options.strict === true && changed > 0
            return { codes: isRefused ? [EXIT.threshold] : [], lines: [line], facts: {} }
          },
        },
        console,
      ),
    )
  } finally {
    await connection.close()
  }
}
