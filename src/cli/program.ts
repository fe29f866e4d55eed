import { Command } from 'commander'
import type { CommandContext } from './command-context.ts'
import { COMPLETE } from './arguments/completion-scripts.ts'
import { packageVersion } from '../platform/code-version.ts'

type AddCommand = (program: Command, context: CommandContext) => void

/** By name, in the order in which a newcomer needs them. */
const COMMANDS: Readonly<Record<string, () => Promise<AddCommand>>> = {
  doctor: async () => (await import('./commands/doctor.ts')).addDoctor,
  up: async () => (await import('./commands/stack.ts')).addUp,
  down: async () => (await import('./commands/stack.ts')).addDown,
  worker: async () => (await import('./commands/stack.ts')).addWorker,
  'codec-server': async () => (await import('./commands/stack.ts')).addCodecServer,
  init: async () => (await import('./commands/init.ts')).addInit,
  train: async () => (await import('./commands/train.ts')).addTrain,
  evaluate: async () => (await import('./commands/evaluate.ts')).addEvaluate,
  wait: async () => (await import('./commands/wait.ts')).addWait,
  compare: async () => (await import('./commands/compare.ts')).addCompare,
  report: async () => (await import('./commands/report.ts')).addReport,
  view: async () => (await import('./commands/view.ts')).addView,
  export: async () => (await import('./commands/export.ts')).addExport,
  track: async () => (await import('./commands/track.ts')).addTrack,
  run: async () => (await import('./commands/run.ts')).addRun,
  host: async () => (await import('./commands/host.ts')).addHost,
  tasks: async () => (await import('./commands/tasks.ts')).addTasks,
  images: async () => (await import('./commands/images.ts')).addImages,
  schedule: async () => (await import('./commands/schedule.ts')).addSchedule,
  recipe: async () => (await import('./commands/recipe.ts')).addRecipe,
  models: async () => (await import('./commands/models.ts')).addModels,
  publish: async () => (await import('./commands/publish.ts')).addPublish,
  'policy-server': async () => (await import('./commands/policy-server.ts')).addPolicyServer,
  ledger: async () => (await import('./commands/ledger.ts')).addLedger,
  grade: async () => (await import('./commands/grade.ts')).addGrade,
  regrade: async () => (await import('./commands/grade.ts')).addRegrade,
  predictions: async () => (await import('./commands/predictions.ts')).addPredictions,
  'grade-log': async () => (await import('./commands/grade-log.ts')).addGradeLog,
  reap: async () => (await import('./commands/reap.ts')).addReap,
  deployment: async () => (await import('./commands/deployment.ts')).addDeployment,
  completion: async () => (await import('./commands/completion.ts')).addCompletion,
  [COMPLETE]: async () => (await import('./commands/completion.ts')).addComplete,
  demo: async () => (await import('./commands/demo.ts')).addDemo,
}

/**
 * `longhaul` with its commands. If the first word names one, only that command is loaded and registered, because loading all of them takes
 * longer than many commands run. Help, mistakes and completion need all of them.
 */
export async function createProgram(context: CommandContext, [name = '']: readonly string[] = []): Promise<Command> {
  const isAlone = name !== COMPLETE && Object.hasOwn(COMMANDS, name)
  const loaders = Object.entries(COMMANDS).filter(([one]) => !isAlone || one === name)
  const program = createRootCommand()
  for (const add of await Promise.all(loaders.map(([, load]) => load()))) add(program, context)
  return program
}

const EXIT_CODES = `
Exit codes: 0 done; 1 usage or configuration, nothing was played; 2 infrastructure, nothing or too little was graded;
            3 a threshold was missed; 4 a regression is proven; 130 interrupted (the run goes on, unless it was cancelled).

A run is durable: Ctrl-C leaves it running. Results go to stdout, progress to stderr.
`

/** `longhaul` without its commands. */
function createRootCommand(): Command {
  return new Command('longhaul')
    .description('train and evaluate software-engineering agents with reinforcement learning, durably on Temporal')
    .version(packageVersion())
    .showHelpAfterError('(add --help for the options)')
    .addHelpText('after', EXIT_CODES)
}
