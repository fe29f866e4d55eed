import type { Command } from 'commander'
import { checkGrading, type GradingCheck } from '../../activities/grading/close-grading.ts'
import { createRecipeReader, createSuiteReader, createTaskReader } from '../../activities/runtime/stored-records.ts'
import { checkLedger, type LedgerCheck } from '../../activities/training/check-ledger.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { runKeys } from '../../contracts/keys.ts'
import type { LedgerTotals } from '../../domain/ledger/ledger.ts'
import type { CommandContext } from '../command-context.ts'
import { EXIT } from '../output/exit-codes.ts'
import { openStore } from '../local-stack.ts'
import { examples, jsonOption, runName } from '../arguments/options.ts'
import { requireKnownRun, requireRunWithEpisodes } from '../../activities/run/run-names.ts'
import type { RunClaim } from '../../contracts/run-records.types.ts'

/** Mismatches shown; the rest is counted. */
const MOST_SHOWN = 20

export function addLedger(program: Command, { console, exit }: CommandContext): void {
  program
    .command('ledger')
    .description('show what became of each episode of a run')
    .command('verify')
    .argument('<run>', 'name of the run', runName)
    .description('derive the ledger again from the records and compare; of a grading run, its verdicts')
    .addOption(jsonOption())
    .addHelpText('after', examples('longhaul ledger verify demo-2026-11-20-a'))
    .addHelpText('after', 'Exit: 1 if the run has nothing to verify yet, or never has; 2 on any mismatch.')
    .action(async (run: string, { json }: { json?: true }) => {
      const store = await openStore()
      await requireKnownRun(store, run)
      const { check, lines, unit } = await verify(store, run)
      if (json === true) console.record(check)
      else console.out([...lines, ...formatMismatches(check.mismatches, unit)].join('\n'))
      if (check.mismatches.length > 0) exit(EXIT.infra)
    })
}

interface Verified {
  check: LedgerCheck | GradingCheck
  lines: string[]
  /** Name of what is accounted for exactly once. */
  unit: string
}

/** @throws LonghaulError for a run without anything to verify, since an empty check would pass */
async function verify(store: ArtifactStore, run: string): Promise<Verified> {
  const claim = await store.readRecord<RunClaim>(runKeys.claim(run))
  if (claim?.kind === 'grade') {
    const readers = { store, tasks: createTaskReader(store), suites: createSuiteReader(store) }
    const check = await checkGrading(readers, run)
    if (check !== null) return { check, lines: [formatGradings(check)], unit: 'patch' }
  }
  await requireRunWithEpisodes(store, run)
  const check = await checkLedger({ store, recipe: await createRecipeReader(store)(run) }, run)
  if (check.ledgers > 0 || check.mismatches.length > 0) return { check, lines: formatLedgers(check), unit: 'episode' }
  throw new LonghaulError({
    code: 'Config.NotFound',
    message: `Expected a ledger, but no iteration of ${run} has ended: there is nothing to verify`,
  })
}

function formatGradings({ gradings, counts: { resolved, unresolved, couldNotGrade } }: GradingCheck): string {
  return `${gradings} gradings: ${resolved} resolved, ${unresolved} unresolved, ${couldNotGrade} could not be graded`
}

function formatLedgers({ totals, ledgers }: LedgerCheck): string[] {
  const { episodes, trained, evaluated, dropped, excluded } = totals
  return [
    `${episodes} episodes in ${ledgers} ledgers: ${trained} trained, ${evaluated} evaluated, ${sum(dropped)} dropped, ${sum(excluded)} excluded`,
    ...formatUnpaid(totals),
  ]
}

function formatMismatches(mismatches: readonly object[], unit: string): string[] {
  return [
    ...mismatches.slice(0, MOST_SHOWN).map((mismatch) => `mismatch ${JSON.stringify(mismatch)}`),
    ...(mismatches.length > MOST_SHOWN ? [`${mismatches.length - MOST_SHOWN} more`] : []),
    mismatches.length === 0 ? `it adds up: each ${unit} exactly once` : `${mismatches.length} mismatches`,
  ]
}

/** Attempts that are officially resolved but earn no reward. */
function formatUnpaid({ unpaid = {} }: LedgerTotals): string[] {
  const counts = Object.entries(unpaid).map(([because, count]) => `${count} ${because}`)
  return counts.length === 0 ? [] : [`${sum(unpaid)} resolved officially and not paid: ${counts.join(', ')}`]
}

function sum(counts: Partial<Record<string, number>>): number {
  return Object.values(counts).reduce<number>((total, count) => total + (count ?? 0), 0)
}
