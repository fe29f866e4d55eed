import type { Command } from 'commander'
import { lookAtHoldings, removeRun, type RunHoldings } from '../../activities/run/remove-run.ts'
import { findOpenWork } from '../../client/index.ts'
import { examples, jsonOption, runName } from '../arguments/options.ts'
import type { CommandContext } from '../command-context.ts'
import { openStore, withConnection } from '../local-stack.ts'
import { EXIT } from '../output/exit-codes.ts'

interface RemoveOptions {
  dryRun?: true
  force?: true
  json?: true
}

export function addRunRemove(run: Command, { console, exit }: CommandContext): void {
  run
    .command('remove')
    .argument('<run>', 'name of the run', runName)
    .description(
      'permanently remove the records of an ended run: episodes, batches, evaluations, reports; policies stay',
    )
    .option('--force', 'remove it even if another run, the next night or the next promotion needs it')
    .option('--dry-run', 'say what would be removed, and remove nothing')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples('longhaul run remove demo-2026-11-20-a --dry-run', 'longhaul run remove OLD-RUN --json'),
    )
    .action(async (name: string, { dryRun, force, json }: RemoveOptions) => {
      const store = await openStore({ writes: dryRun !== true })
      const holdings = await lookAtHoldings(store, name)
      const uses = usesOf(holdings)
      const kept = uses.length > 0 && force !== true
      if (dryRun === true || kept) {
        if (json === true) console.record({ ...holdings, changed: false, ...(dryRun === true ? { dryRun } : {}) })
        else console.out(describe(holdings, kept))
        if (kept && dryRun !== true) exit(EXIT.usage)
        return
      }
      await withConnection(async (connection) => {
        const isOpen = async (lastPlayer: string | null): Promise<string | null> => {
          const open = await findOpenWork({ connection, run: name, lastPlayer })
          if (open === null) return null
          return open.count === 1 ? open.workflowId : `${open.workflowId} and ${open.count - 1} more workflows of it`
        }
        const { removed } = await removeRun(store, name, isOpen)
        if (json === true) console.record({ ...holdings, changed: true, removed })
        else console.out(`removed ${removed} objects of ${name}; the name is free`)
      })
    })
}

function describe(holdings: RunHoldings, kept: boolean): string {
  const { run, episodes, records, isBeingRemoved } = holdings
  const uses = usesOf(holdings)
  return [
    `${run}: ${episodes} objects of its episodes, ${records} others${isBeingRemoved ? ', half removed already' : ''}`,
    ...uses.map((use) => `it is needed: ${use}`),
    ...(kept ? ['nothing was removed; --force removes it all the same'] : []),
  ].join('\n')
}

/** What stays and depends on the run. */
function usesOf({
  regradedBy,
  comparedBy,
  newestNightOf,
  baselineOf,
  baselineInRecipes,
  isPromoted,
}: RunHoldings): string[] {
  return [
    ...regradedBy.map((other) => `the run ${other} grades its patches again and has no result yet`),
    ...comparedBy.map((other) => `the run ${other} names it as its baseline and has no report yet`),
    ...newestNightOf.map((series) => `the newest night of ${series}, with which the next one is compared`),
    ...baselineOf.map((series) => `the baseline that nights of ${series} are compared with`),
    ...baselineInRecipes.map((recipe) => `the baseline that the pushed recipe ${recipe} names`),
    ...(isPromoted ? ['the last promotion rests on its evaluation'] : []),
  ]
}
