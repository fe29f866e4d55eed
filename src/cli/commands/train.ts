import type { Command } from 'commander'
import { showMean } from '../../domain/statistics/statistics.ts'
import { startTraining } from '../../client/index.ts'
import type { StageScore, TrainAgentResult } from '../../contracts/workflows.types.ts'
import { renderTextReport } from '../../report/text-report.ts'
import type { CommandContext } from '../command-context.ts'
import type { Console } from '../output/console.ts'
import { type Conclude, launchRun } from './launch-run.ts'
import { openStoreIfThere } from '../local-stack.ts'
import { examples, type RunOptions, withRecipeOptions, withRunOptions } from '../arguments/options.ts'
import { readRecipeArgument, type RecipeOptions } from '../arguments/recipe-argument.ts'
import { newestReport, reportOf } from '../output/show-report.ts'

type TrainOptions = RecipeOptions & RunOptions

export function addTrain(program: Command, context: CommandContext): void {
  const command = program
    .command('train')
    .description('train a policy: gate, evaluate the base, RFT, DAPO, evaluate, promote, report')
  withRunOptions(withRecipeOptions(command, 'demo'))
    .addHelpText(
      'after',
      examples(
        'longhaul train',
        'longhaul train --recipe demo --seed 2 -c reinforce.groupSize=4',
        'longhaul train --recipe ./my.yaml --run first-try --detach --json',
      ),
    )
    .action((options: TrainOptions) => train(options, context))
}

async function train(options: TrainOptions, context: CommandContext): Promise<void> {
  const { request } = await readRecipeArgument(options)
  await launchRun({
    options,
    context,
    start: (common) => startTraining({ ...common, ...request }),
    conclude: reportTraining({ console: context.console, json: options.json === true }),
  })
}

/** Prints the report of a training run and its paths. */
export function reportTraining({ console, json }: { console: Console; json: boolean }): Conclude<TrainAgentResult> {
  return async (result, exitCode) => {
    const { run, stages } = result
    // A cluster's store may not be mounted here; then the scores of the result are shown.
    const store = await openStoreIfThere()
    const report = store === null ? null : await newestReport(store, run)
    if (json) {
      const paths = { json: report?.jsonPath ?? null, html: report?.htmlPath ?? null }
      console.record({ event: 'done', exitCode, outcome: { status: 'completed', result }, paths })
      return exitCode
    }
    if (store === null || report === null) {
      console.out(stages.map(describeScore).join('\n'))
      return exitCode
    }
    console.out(renderTextReport(await reportOf(store, run)))
    console.out(`HTML report  ${report.htmlPath}`)
    console.out(report.jsonPath)
    return exitCode
  }
}

export function describeScore({ name, policy, passAt1, sem, tasks, attempts, audited }: StageScore): string {
  const over = attempts === 1 ? ', SEM over tasks' : ''
  const paid = audited === undefined ? '' : `, audited ${showMean({ ...audited, mean: audited.passAt1, tasks })}`
  return `${name}  ${policy}  pass@1 ${showMean({ mean: passAt1, sem, tasks })}${paid} (n = ${tasks}, k = ${attempts}${over})`
}
