import type { EpisodeRecord } from '../../contracts/episodes.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { GradingRecipe } from '../../contracts/recipe.types.ts'
import {
  type DropReason,
  type EpisodeFate,
  type ExclusionReason,
  exclusionOf,
  isValidEpisode,
} from './episode-fates.ts'
import { compareText } from '../hash-order.ts'
import { type Unpaid, unpaidOf } from '../rewards/payment.ts'

/** The final fate of one episode. */
export type LedgerEntry = (
  | { episode: string; fate: 'trained'; batch: string }
  | { episode: string; fate: 'dropped'; because: DropReason }
  | { episode: string; fate: 'excluded'; because: ExclusionReason }
  | { episode: string; fate: 'evaluated'; in: string }
) & {
  /** Why an officially resolved episode is not paid: an audit, a sign of hacking, or the lack of an audit. Absent in ledgers of
   *  earlier versions. */
  unpaid?: Unpaid
}

/** Accounts for every episode of one iteration (or evaluation) exactly once. */
export interface Ledger {
  schema: 'longhaul.ledger/1'
  run: string
  stage: string
  iteration: number
  entries: LedgerEntry[]
  totals: LedgerTotals
}

export interface LedgerTotals {
  episodes: number
  trained: number
  evaluated: number
  dropped: Partial<Record<DropReason, number>>
  excluded: Partial<Record<ExclusionReason, number>>
  /** Officially resolved episodes that are not paid; absent if there are none. */
  unpaid?: Partial<Record<Unpaid, number>>
}

interface LedgerHead {
  run: string
  stage: string
  iteration: number
}

export interface TrainingLedgerInput extends LedgerHead {
  fates: readonly EpisodeFate[]
  /** Batch key of every episode that trains. */
  batchOf: ReadonlyMap<string, string>
  /** Resolved episodes that are not paid. @default none */
  unpaid?: ReadonlyMap<string, Unpaid>
}

/** Returns the resolved episodes in these records that are not paid. Recipes older than audits define none. */
export function unpaidIn(
  records: readonly EpisodeRecord[],
  { grading }: { grading?: GradingRecipe },
): Map<string, Unpaid> {
  const found = new Map<string, Unpaid>()
  if (grading === undefined) return found
  for (const record of records) {
    const because = isValidEpisode(record) ? unpaidOf(record, grading.unauditedRewards) : null
    if (because !== null) found.set(record.episode, because)
  }
  return found
}

/** @throws LonghaulError `Ledger.Mismatch` if an episode that should train is in no batch */
export function buildTrainingLedger({ fates, batchOf, unpaid, ...head }: TrainingLedgerInput): Ledger {
  return closeLedger(
    head,
    fates.map((fate) => marked(entryOf(fate, batchOf), unpaid)),
  )
}

function marked(entry: LedgerEntry, unpaid: ReadonlyMap<string, Unpaid> = new Map()): LedgerEntry {
  const because = unpaid.get(entry.episode)
  return because === undefined ? entry : { ...entry, unpaid: because }
}

/** Evaluation trains nothing: valid episodes were evaluated, the others are excluded with their reason. */
export function buildEvaluationLedger({
  records,
  evaluation,
  unpaid,
  ...head
}: LedgerHead &
  Pick<TrainingLedgerInput, 'unpaid'> & {
    records: readonly EpisodeRecord[]
    evaluation: string
  }): Ledger {
  const entries = records.map((record): LedgerEntry => {
    const because = exclusionOf(record)
    const { episode } = record
    return because === null ? { episode, fate: 'evaluated', in: evaluation } : { episode, fate: 'excluded', because }
  })
  return closeLedger(
    head,
    entries.map((entry) => marked(entry, unpaid)),
  )
}

function entryOf(fate: EpisodeFate, batchOf: ReadonlyMap<string, string>): LedgerEntry {
  const { episode } = fate
  if (fate.kind !== 'train') return { episode, fate: fate.kind, because: fate.reason } as LedgerEntry
  const batch = batchOf.get(episode)
  if (batch !== undefined) return { episode, fate: 'trained', batch }
  throw new LonghaulError({
    code: 'Ledger.Mismatch',
    message: 'Expected every kept episode to be in a batch, found one in none',
    details: { episode },
  })
}

function closeLedger({ run, stage, iteration }: LedgerHead, unsorted: LedgerEntry[]): Ledger {
  const entries = [...unsorted].sort((a, b) => compareText(a.episode, b.episode))
  return { schema: 'longhaul.ledger/1', run, stage, iteration, entries, totals: totalsOf(entries) }
}

export function totalsOf(entries: readonly LedgerEntry[]): LedgerTotals {
  const totals: LedgerTotals = { episodes: entries.length, trained: 0, evaluated: 0, dropped: {}, excluded: {} }
  for (const entry of entries) {
    if (entry.fate === 'trained') totals.trained += 1
    else if (entry.fate === 'evaluated') totals.evaluated += 1
    else if (entry.fate === 'dropped') totals.dropped[entry.because] = (totals.dropped[entry.because] ?? 0) + 1
    else totals.excluded[entry.because] = (totals.excluded[entry.because] ?? 0) + 1
    if (entry.unpaid !== undefined) {
      totals.unpaid = { ...totals.unpaid, [entry.unpaid]: (totals.unpaid?.[entry.unpaid] ?? 0) + 1 }
    }
  }
  return totals
}

/** A run's totals from its ledgers. */
export function sumTotals(ledgers: readonly Ledger[]): LedgerTotals {
  return totalsOf(ledgers.flatMap((ledger) => ledger.entries))
}
