import type { Command } from 'commander'
import { startTraining } from '../../client/index.ts'
import type { TrainAgentResult } from '../../contracts/workflows.types.ts'
import type { CommandContext } from '../command-context.ts'
import { type Followed, followRun } from './follow-run.ts'
import { concludeRun } from './launch-run.ts'
import { withConnection } from '../local-stack.ts'
import { integer } from '../arguments/options.ts'
import { readRecipeArgument } from '../arguments/recipe-argument.ts'
import { describeDown, describeFacts, startLocalStack, stopLocalStack } from './stack.ts'
import { reportTraining } from './train.ts'

interface DemoOptions {
  recipe: string
  seed?: number
  down?: true
}

/** What `npm run demo` calls: set-up, the whole pipeline, the report. The last line of stdout is the JSON report's path. */
export function addDemo(program: Command, context: CommandContext): void {
  program
    .command('demo', { hidden: true })
    .description('the whole pipeline on this machine: set up, train, report')
    .option('--recipe <name|file>', 'name of a recipe, or a YAML file', 'demo')
    .option('--seed <n>', 'another seed, for other tasks and other samples', integer({ name: '--seed' }))
    .option('--down', 'stop the stack at the end')
    .action((options: DemoOptions) => demo(options, context))
}

async function demo(options: DemoOptions, { console, exit }: CommandContext): Promise<void> {
  const { request } = await readRecipeArgument({ recipe: options.recipe, ...seeded(options) })
  const { stack } = await startLocalStack({ console })
  const { facts } = stack
  console.err(`stack "${facts.name}" is up: ${stack.services.map(({ name }) => name).join(', ')}`)
  let followed: Followed<TrainAgentResult>
  try {
    followed = await withConnection(async (connection) =>
      followRun({ handle: await startTraining({ connection, ...request }), console, json: false }),
    )
  } finally {
    if (options.down === true) console.err(describeDown(await stopLocalStack()))
  }
  if (options.down !== true) {
    console.err(['what runs now', ...describeFacts(facts), 'stop it     npx --no-install longhaul down'].join('\n  '))
  }
  const later = options.down === true ? ' (stopped; longhaul up starts it again)' : ''
  if (facts.uiUrl !== null) console.out(`Temporal UI  ${facts.uiUrl}${later}`)
  // Reads artifacts only, so the path of the report is the last line also where the stack has been stopped.
  const conclude = reportTraining({ console, json: false })
  exit(await concludeRun({ followed, console, json: false, conclude }))
}

/** Another seed also means other training tasks; the held-out suite stays, so that seeds can be compared on it. */
function seeded({ seed }: DemoOptions): { seed?: number; set?: string[] } {
  return seed === undefined ? {} : { seed, set: [`data.train.seed=${seed}`] }
}
