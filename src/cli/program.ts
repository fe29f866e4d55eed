import { Command } from 'commander'
import type { CommandContext } from './command-context.ts'
import { addComplete, addCompletion } from './commands/completion.ts'
import { addCompare } from './commands/compare.ts'
import { addDemo } from './commands/demo.ts'
import { addDeployment } from './commands/deployment.ts'
import { addDoctor } from './commands/doctor.ts'
import { addCodecServer, addStack, addWorker } from './commands/stack.ts'
import { addEvaluate } from './commands/evaluate.ts'
import { addExport } from './commands/export.ts'
import { addGrade, addRegrade } from './commands/grade.ts'
import { addGradeLog } from './commands/grade-log.ts'
import { addHost } from './commands/host.ts'
import { addInit } from './commands/init.ts'
import { addImages } from './commands/images.ts'
import { addLedger } from './commands/ledger.ts'
import { addModels } from './commands/models.ts'
import { addPredictions } from './commands/predictions.ts'
import { addReap } from './commands/reap.ts'
import { addPolicyServer } from './commands/policy-server.ts'
import { addPublish } from './commands/publish.ts'
import { addRecipe } from './commands/recipe.ts'
import { addReport } from './commands/report.ts'
import { addRun } from './commands/run.ts'
import { addSchedule } from './commands/schedule.ts'
import { addTasks } from './commands/tasks.ts'
import { addTrack } from './commands/track.ts'
import { addTrain } from './commands/train.ts'
import { addView } from './commands/view.ts'
import { addWait } from './commands/wait.ts'
import { packageVersion } from '../platform/code-version.ts'

/** Commands in the order in which a newcomer needs them. */
export function createProgram(context: CommandContext): Command {
  const program = createRootCommand()
  for (const add of [
    addDoctor,
    addStack,
    addWorker,
    addCodecServer,
    addInit,
    addTrain,
    addEvaluate,
    addWait,
    addCompare,
    addReport,
    addView,
    addExport,
    addTrack,
    addRun,
    addHost,
    addTasks,
    addImages,
    addSchedule,
    addRecipe,
    addModels,
    addPublish,
    addPolicyServer,
    addLedger,
    addGrade,
    addRegrade,
    addPredictions,
    addGradeLog,
    addReap,
    addDeployment,
    addCompletion,
    addComplete,
    addDemo,
  ]) {
    add(program, context)
  }
  return program
}

const EXIT_CODES = `
Exit codes: 0 done; 1 usage or configuration, nothing was played; 2 infrastructure, nothing or too little was graded;
            3 a threshold was missed; 4 a regression is proven; 130 interrupted (the run goes on, unless it was cancelled).

A run is durable: Ctrl-C leaves it running. Results go to stdout, progress to stderr.
`

/** `longhaul` without its commands. */
export function createRootCommand(): Command {
  return new Command('longhaul')
    .description('train and evaluate software-engineering agents with reinforcement learning, durably on Temporal')
    .version(packageVersion())
    .showHelpAfterError('(add --help for the options)')
    .addHelpText('after', EXIT_CODES)
}
