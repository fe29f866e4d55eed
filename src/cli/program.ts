import { Command } from 'commander'
import { packageVersion } from '../activities/artifacts/package-version.ts'
import type { CommandContext } from './command-context.ts'
import { addCompare } from './commands/compare.ts'
import { addDemo } from './commands/demo.ts'
import { addDoctor } from './commands/doctor.ts'
import { addEvaluate } from './commands/evaluate.ts'
import { addLedger } from './commands/ledger.ts'
import { addReap } from './commands/reap.ts'
import { addRecipe } from './commands/recipe.ts'
import { addReport } from './commands/report.ts'
import { addRun } from './commands/run.ts'
import { addSchedule } from './commands/schedule.ts'
import { addStack } from './commands/stack.ts'
import { addTasks } from './commands/tasks.ts'
import { addTrain } from './commands/train.ts'
import { addWorker } from './commands/worker.ts'

const EXIT_CODES = `
Exit codes: 0 done; 1 usage or configuration, nothing was started; 2 infrastructure, nothing or too little was graded;
            3 a threshold was missed; 4 a regression is proven; 130 interrupted (the run goes on, unless it was cancelled).

A run is durable: Ctrl-C leaves it running. Results go to stdout, progress to stderr.
`

/** Commands in the order in which a newcomer needs them. */
export function createProgram(context: CommandContext): Command {
  const program = new Command('longhaul')
    .description('train and evaluate software-engineering agents with reinforcement learning, durably on Temporal')
    .version(packageVersion())
    .showHelpAfterError('(add --help for the options)')
    .addHelpText('after', EXIT_CODES)
  for (const add of [
    addDoctor,
    addStack,
    addWorker,
    addTrain,
    addEvaluate,
    addCompare,
    addReport,
    addRun,
    addTasks,
    addSchedule,
    addRecipe,
    addLedger,
    addReap,
    addDemo,
  ]) {
    add(program, context)
  }
  return program
}
