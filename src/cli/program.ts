import type { Command } from 'commander'
import type { CommandContext } from './command-context.ts'
import { addCompare } from './commands/compare.ts'
import { addDemo } from './commands/demo.ts'
import { addDoctor } from './commands/doctor.ts'
import { addEvaluate } from './commands/evaluate.ts'
import { addGrade } from './commands/grade.ts'
import { addGradeLog } from './commands/grade-log.ts'
import { addLedger } from './commands/ledger.ts'
import { addPredictions } from './commands/predictions.ts'
import { addReap } from './commands/reap.ts'
import { addPolicyServer } from './commands/policy-server.ts'
import { addRecipe } from './commands/recipe.ts'
import { addRegrade } from './commands/regrade.ts'
import { addReport } from './commands/report.ts'
import { addRun } from './commands/run.ts'
import { addSchedule } from './commands/schedule.ts'
import { addStack } from './commands/stack.ts'
import { addTasks } from './commands/tasks.ts'
import { addTrain } from './commands/train.ts'
import { addWorker } from './commands/worker.ts'
import { createRootCommand } from './root-command.ts'

/** Commands in the order in which a newcomer needs them. */
export function createProgram(context: CommandContext): Command {
  const program = createRootCommand()
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
    addPolicyServer,
    addLedger,
    addGrade,
    addRegrade,
    addPredictions,
    addGradeLog,
    addReap,
    addDemo,
  ]) {
    add(program, context)
  }
  return program
}
