import { Argument, type Command } from 'commander'
import type { LonghaulConnection } from '../../client/index.ts'
import { type Candidate, completeWords, type LiveKind } from '../arguments/complete-words.ts'
import { COMPLETE, SCRIPTS, type Shell, SHELLS } from '../arguments/completion-scripts.ts'
import { examples } from '../arguments/options.ts'
import { recipeDirs } from '../arguments/recipe-argument.ts'
import type { CommandContext } from '../command-context.ts'
import { withConnection } from '../local-stack.ts'

export function addCompletion(program: Command, { console }: CommandContext): void {
  program
    .command('completion')
    .addArgument(new Argument('<shell>', 'for which shell').choices(SHELLS))
    .description(
      'print a script with which a shell completes commands, options, and names of runs, recipes, schedules and hosts',
    )
    .addHelpText(
      'after',
      examples(
        'source <(longhaul completion bash)     # in ~/.bashrc',
        'source <(longhaul completion zsh)      # in ~/.zshrc, after compinit',
        'longhaul completion fish | source      # in ~/.config/fish/config.fish',
      ),
    )
    .action((shell: Shell) => console.out(SCRIPTS[shell]))
}

/** Longest wait at the Tab key, from the start of this process; LONGHAUL_COMPLETION_MS overrides it. */
const BUDGET_MS = 900
const LONGEST_MS = 600_000
/** Least wait, if loading has used up the budget. */
const LEAST_MS = 150

/** Called by the scripts: prints one candidate per line, with its description for shells that show one; nothing if there is none. */
export function addComplete(program: Command, { console }: CommandContext): void {
  program
    .command(COMPLETE, { hidden: true })
    .addArgument(new Argument('<shell>').choices(SHELLS))
    .argument('[words...]')
    .action(async (shell: Shell, words: string[]) => {
      const { candidates, live, before } = completeWords(program, words)
      const typed = words.at(-1) ?? ''
      const prefix = typed === '=' ? '' : typed.slice(before.length)
      const named = live === null ? [] : await namesOf(live)
      const found = [...candidates, ...named.filter(({ value }) => value.startsWith(prefix) && isPlain(value))]
      // Bash splits words at `=` and replaces only the last part.
      const start = shell === 'bash' ? '' : before
      if (found.length > 0) console.out(found.map((one) => lineOf(shell, start, one)).join('\n'))
    })
}

function lineOf(shell: Shell, before: string, { value, description }: Candidate): string {
  return shell === 'bash' || description === '' ? `${before}${value}` : `${before}${value}\t${description}`
}

/** Whether a shell takes the name literally: names come from other users, and Enter runs what was completed. */
function isPlain(name: string): boolean {
  return /^[A-Za-z0-9][\w.@%+,/-]*$/.test(name)
}

function budgetMs(): number {
  const asked = Number(process.env['LONGHAUL_COMPLETION_MS'])
  // An invalid value is ignored: there is no place for an error at the Tab key.
  return asked > 0 ? Math.min(asked, LONGEST_MS) : BUDGET_MS
}

async function withinBudget(ask: () => Promise<Candidate[]>): Promise<Candidate[]> {
  const leftMs = Math.max(LEAST_MS, budgetMs() - performance.now())
  const late = Promise.withResolvers<Candidate[]>()
  const timer = setTimeout(() => late.resolve([]), leftMs)
  try {
    return await Promise.race([ask().catch(() => []), late.promise])
  } finally {
    clearTimeout(timer)
  }
}

const MOST = 50

async function namesOf(kind: LiveKind): Promise<Candidate[]> {
  if (kind === 'recipes') return namesOfRecipes()
  return withinBudget(() =>
    withConnection((connection) => {
      if (kind === 'schedules') return schedulesOf(connection)
      return kind === 'hosts' ? hostsOf(connection) : runsOf(connection, kind)
    }),
  )
}

async function namesOfRecipes(): Promise<Candidate[]> {
  const [{ recipeNames }, { pushedRecipes }, { openStore }] = await Promise.all([
    import('../../adapters/recipes/load-recipe.ts'),
    import('../../adapters/recipes/pushed-recipes.ts'),
    import('../local-stack.ts'),
  ])
  const builtIn = await recipeNames(recipeDirs())
  // An unavailable or slow store costs only its own names.
  const pushed = await withinBudget(async () =>
    (await pushedRecipes(await openStore()).names()).map((value) => ({ value, description: 'pushed' })),
  )
  return [...builtIn.map((value) => ({ value, description: '' })), ...pushed]
}

async function runsOf(connection: LonghaulConnection, kind: 'runs' | 'open runs'): Promise<Candidate[]> {
  const { listRuns } = await import('../../client/index.ts')
  const runs = await listRuns({ connection, open: kind === 'open runs', limit: MOST })
  const found = runs.map(({ run, workflowId, type, status }) => ({
    value: run ?? workflowId,
    description: `${type}, ${status.toLowerCase()}`,
  }))
  return found.filter(({ value }, at) => found.findIndex((one) => one.value === value) === at)
}

async function hostsOf(connection: LonghaulConnection): Promise<Candidate[]> {
  const { listHosts } = await import('../../client/index.ts')
  return (await listHosts({ connection })).map(({ host, state }) => ({ value: host, description: state }))
}

async function schedulesOf(connection: LonghaulConnection): Promise<Candidate[]> {
  const { listSchedules } = await import('../../client/index.ts')
  return (await listSchedules({ connection })).map(({ id }) => ({ value: id, description: 'schedule' }))
}
