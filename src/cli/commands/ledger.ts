import type { Command } from 'commander'
import { checkLedger } from '../../activities/training/check-ledger.ts'
import { createRecipeReader } from '../../activities/runtime/stored-records.ts'
import type { LedgerTotals } from '../../domain/ledger/ledger.ts'
import type { CommandContext } from '../command-context.ts'
import { EXIT } from '../output/exit-codes.ts'
import { openStore } from '../local-stack.ts'
import { examples, jsonOption } from '../arguments/options.ts'
import { requireRun } from './view.ts'

/** Mismatches shown; the rest is counted. */
const MOST_SHOWN = 20

export function addLedger(program: Command, { console, exit }: CommandContext): void {
  program
    .command('ledger')
    .description('show what became of each episode of a run')
    .command('verify')
    .argument('<run>', 'name of the run')
    .description('derive the ledger again from the records and compare; exit 2 on any mismatch')
    .addOption(jsonOption())
    .addHelpText('after', examples('longhaul ledger verify demo-2026-11-20-a'))
    .action(async (run: string, { json }: { json?: true }) => {
      const store = await openStore()
      await requireRun(store, run)
      const recipe = await createRecipeReader(store)(run)
      const check = await checkLedger({ store, recipe }, run)
      if (json === true) console.record(check)
      else {
        const { totals, mismatches, ledgers } = check
        console.out(
          [
            `${totals.episodes} episodes in ${ledgers} ledgers: ${totals.trained} trained, ${totals.evaluated} evaluated, ${sum(totals.dropped)} dropped, ${sum(totals.excluded)} excluded`,
            ...formatUnpaid(totals),
            ...mismatches.slice(0, MOST_SHOWN).map((mismatch) => `mismatch ${JSON.stringify(mismatch)}`),
            ...(mismatches.length > MOST_SHOWN ? [`${mismatches.length - MOST_SHOWN} more`] : []),
            mismatches.length === 0 ? 'it adds up: each episode exactly once' : `${mismatches.length} mismatches`,
          ].join('\n'),
        )
      }
      if (check.mismatches.length > 0) exit(EXIT.infra)
    })
}

/** Resolved by the official verdict, and not what rewards are paid for. */
function formatUnpaid({ unpaid = {} }: LedgerTotals): string[] {
  const counts = Object.entries(unpaid).map(([because, count]) => `${count} ${because}`)
  return counts.length === 0 ? [] : [`${sum(unpaid)} resolved officially and not paid: ${counts.join(', ')}`]
}

function sum(counts: Partial<Record<string, number>>): number {
  return Object.values(counts).reduce<number>((total, count) => total + (count ?? 0), 0)
}
