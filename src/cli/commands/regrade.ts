import type { Command } from 'commander'
import { startGrading } from '../../client/index.ts'
import { isChanged } from '../../domain/grading-rules.ts'
import type { CommandContext } from '../command-context.ts'
import { EXIT } from '../output/exit-codes.ts'
import { launchRun } from './launch-run.ts'
import { openStore } from '../local-stack.ts'
import { collect, examples } from '../arguments/options.ts'
import { sayGrading } from '../output/show-grading.ts'
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

async function regrade(run: string, options: RegradeOptions, context: CommandContext): Promise<void> {
  const request = await requestOf(options)
  const { stage: stages, strict } = options
  await launchRun({
    options,
    context,
    start: (common) =>
      startGrading({ ...common, regrade: run, ...(stages.length === 0 ? {} : { stages }), ...request }),
    conclude: sayGrading({
      store: await openStore(),
      console: context.console,
      minGraded: options.minGraded,
      json: options.json === true,
      finally: async ({ instances }) => {
        const changed = instances.filter(isChanged).length
        const line = changed === 0 ? 'no verdict changed' : `${changed} of ${instances.length} verdicts changed`
        const isRefused = strict === true && changed > 0
        return { codes: isRefused ? [EXIT.threshold] : [], lines: [line], facts: {} }
      },
    }),
  })
}
