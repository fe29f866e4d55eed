import type { Command } from 'commander'
import { startTraining } from '../../client/index.ts'
import type { StageScore, TrainAgentResult } from '../../contracts/workflows.types.ts'
import { renderTextReport } from '../../report/text-report.ts'
import type { CommandContext } from '../command-context.ts'
import { EXIT, type ExitCode, exitCodeOfOutcome } from '../exit-codes.ts'
import { announce, type Followed, followRun, type OnInterrupt } from '../follow-run.ts'
import { connectToStack, openStore } from '../local-stack.ts'
import { examples, withRecipeOptions, withRunOptions } from '../options.ts'
import { readRecipeArgument } from '../recipe-argument.ts'
import { newestReport, reportOf } from '../show-report.ts'
import { describeFailure } from '../describe-failure.ts'

interface TrainOptions {
  recipe: string
  seed?: number
  set?: string[]
  run?: string
  fresh?: true
  detach?: true
  onInterrupt?: OnInterrupt
  json?: true
}

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

async function train(options: TrainOptions, { console, exit }: CommandContext): Promise<void> {
  const json = options.json === true
  const { request } = await readRecipeArgument(options)
  const connection = await connectToStack()
  try {
    const handle = await startTraining({
      connection,
      ...request,
      ...(options.run === undefined ? {} : { run: options.run }),
      fresh: options.fresh === true,
    })
    if (options.detach === true) {
      announce(handle, { console, json })
      if (!json) console.out(handle.workflowId)
      return
    }
    const followed = await followRun({ handle, console, json, onInterrupt: options.onInterrupt })
    exit(await finishTraining(followed, { console, json }))
  } finally {
    await connection.close()
  }
}

/** Prints the result of a followed training run and says how the command ends. */
export async function finishTraining(
  followed: Followed<TrainAgentResult>,
  { console, json }: { console: CommandContext['console']; json: boolean },
): Promise<ExitCode> {
  if (followed.kind === 'detached') return EXIT.interrupted
  const { outcome } = followed
  const exitCode = followed.interrupted ? EXIT.interrupted : exitCodeOfOutcome(outcome)
  if (outcome.status !== 'completed') {
    if (json) console.record({ event: 'done', exitCode, outcome })
    console.err(describeFailure(outcome))
    return exitCode
  }
  const { run, stages } = outcome.result
  const store = await openStore()
  const report = await newestReport(store, run)
  if (json) {
    const paths = { json: report?.jsonPath ?? null, html: report?.htmlPath ?? null }
    console.record({ event: 'done', exitCode, outcome, paths })
    return exitCode
  }
  // A cluster's store may not be mounted here: the scores came with the result.
  if (report === null) {
    console.out(stages.map(describeScore).join('\n'))
    return exitCode
  }
  console.out(renderTextReport(await reportOf(store, run)))
  console.out(`HTML report  ${report.htmlPath}`)
  console.out(report.jsonPath)
  return exitCode
}

export function describeScore({ name, policy, passAt1, sem, tasks, attempts }: StageScore): string {
  const over = attempts === 1 ? ', SEM over tasks' : ''
  return `${name}  ${policy}  pass@1 ${passAt1.toFixed(3)} ± ${sem.toFixed(3)} (n = ${tasks}, k = ${attempts}${over})`
}
