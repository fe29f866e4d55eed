import type { EpisodeRecord } from '../../contracts/episodes.types.ts'
import { purposeOf } from '../../contracts/episode-purpose.ts'
import { compareText } from '../hash-order.ts'
import { type Ledger, type LedgerEntry, totalsOf } from './ledger.ts'

export type LedgerMismatch =
  | { kind: 'missing'; episode: string }
  | { kind: 'duplicated'; episode: string; times: number }
  | { kind: 'unknown-episode'; episode: string }
  | { kind: 'in-two-batches'; episode: string; batches: string[] }
  /** The ledger says that the batch trained it, but the batch does not contain it. */
  | { kind: 'not-in-batch'; episode: string; batch: string }
  /** The batch contains it, but the ledger says otherwise. */
  | { kind: 'trained-unledgered'; episode: string; batch: string }
  /** Applying the rules to the records again gives another fate. */
  | { kind: 'other-fate'; episode: string; ledger: string; derived: string }
  /** The batch contains it as an expert, but no ledger says that fine-tuning kept it. */
  | { kind: 'expert-not-kept'; episode: string; batch: string }
  | { kind: 'totals'; stage: string; iteration: number }

export interface VerifyLedgerInput {
  /** All ledgers of a run, or one. */
  ledgers: readonly Ledger[]
  /** Every episode record that these ledgers should account for. */
  records: readonly Pick<EpisodeRecord, 'episode'>[]
  /** The content of the batch manifests. */
  batches: readonly { key: string; episodes: readonly string[]; experts?: readonly string[] }[]
  /** Ledgers built again from the records; null skips that comparison. */
  derived: readonly Ledger[] | null
}

/** Returns every way in which the ledger does not add up, sorted. Empty means that each episode is accounted for exactly once. */
export function verifyLedger({ ledgers, records, batches, derived }: VerifyLedgerInput): LedgerMismatch[] {
  const entries = ledgers.flatMap((ledger) => ledger.entries)
  return [
    ...coverage(entries, records),
    ...batchMembership(entries, batches),
    ...expertsNotKept(ledgers, batches),
    ...(derived === null ? [] : fates(entries, derived)),
    ...ledgers.filter(hasWrongTotals).map(({ stage, iteration }) => ({ kind: 'totals' as const, stage, iteration })),
  ].sort((a, b) => compareText(JSON.stringify(a), JSON.stringify(b)))
}

function coverage(entries: readonly LedgerEntry[], records: VerifyLedgerInput['records']): LedgerMismatch[] {
  const times = new Map<string, number>()
  for (const { episode } of entries) times.set(episode, (times.get(episode) ?? 0) + 1)
  const known = new Set(records.map(({ episode }) => episode))
  const mismatches: LedgerMismatch[] = []
  for (const episode of known) if (!times.has(episode)) mismatches.push({ kind: 'missing', episode })
  for (const [episode, count] of times) {
    if (count > 1) mismatches.push({ kind: 'duplicated', episode, times: count })
    if (!known.has(episode)) mismatches.push({ kind: 'unknown-episode', episode })
  }
  return mismatches
}

function batchMembership(entries: readonly LedgerEntry[], batches: VerifyLedgerInput['batches']): LedgerMismatch[] {
  const batchesOf = new Map<string, string[]>()
  for (const { key, episodes } of batches) {
    for (const episode of episodes) batchesOf.set(episode, [...(batchesOf.get(episode) ?? []), key])
  }
  const ledgerBatch = new Map(entries.map((entry) => [entry.episode, entry.fate === 'trained' ? entry.batch : null]))
  const mismatches: LedgerMismatch[] = []
  for (const [episode, keys] of batchesOf) {
    if (keys.length > 1) mismatches.push({ kind: 'in-two-batches', episode, batches: keys })
    for (const batch of new Set(keys)) {
      if (ledgerBatch.get(episode) !== batch) mismatches.push({ kind: 'trained-unledgered', episode, batch })
    }
  }
  for (const [episode, batch] of ledgerBatch) {
    if (batch !== null && !batchesOf.get(episode)?.includes(batch)) {
      mismatches.push({ kind: 'not-in-batch', episode, batch })
    }
  }
  return mismatches
}

/** Finds experts that fine-tuning did not keep. An episode was kept if it trained or if only the step limit left it out. */
function expertsNotKept(ledgers: readonly Ledger[], batches: VerifyLedgerInput['batches']): LedgerMismatch[] {
  const fineTuned = ledgers.filter(({ stage }) => purposeOf(stage).kind === 'rft').flatMap(({ entries }) => entries)
  const kept = new Set(
    fineTuned
      .filter((entry) => entry.fate === 'trained' || (entry.fate === 'dropped' && entry.because === 'over-step-limit'))
      .map(({ episode }) => episode),
  )
  return batches.flatMap(({ key, experts = [] }) =>
    experts.flatMap((episode) =>
      kept.has(episode) ? [] : [{ kind: 'expert-not-kept' as const, episode, batch: key }],
    ),
  )
}

function fates(entries: readonly LedgerEntry[], derived: readonly Ledger[]): LedgerMismatch[] {
  const expected = new Map(derived.flatMap((ledger) => ledger.entries).map((entry) => [entry.episode, tell(entry)]))
  return entries.flatMap((entry) => {
    const wanted = expected.get(entry.episode)
    // An episode that the derivation does not know is already reported as `unknown-episode`.
    if (wanted === undefined || wanted === tell(entry)) return []
    return [{ kind: 'other-fate' as const, episode: entry.episode, ledger: tell(entry), derived: wanted }]
  })
}

function tell(entry: LedgerEntry): string {
  return entry.unpaid === undefined ? tellFate(entry) : `${tellFate(entry)}, unpaid: ${entry.unpaid}`
}

function tellFate(entry: LedgerEntry): string {
  if (entry.fate === 'trained') return `trained in ${entry.batch}`
  if (entry.fate === 'evaluated') return `evaluated in ${entry.in}`
  return `${entry.fate} because ${entry.because}`
}

function hasWrongTotals({ entries, totals }: Ledger): boolean {
  const right = totalsOf(entries)
  return (
    right.episodes !== totals.episodes ||
    right.trained !== totals.trained ||
    right.evaluated !== totals.evaluated ||
    !sameCounts(right.dropped, totals.dropped) ||
    !sameCounts(right.excluded, totals.excluded) ||
    !sameCounts(right.unpaid ?? {}, totals.unpaid ?? {})
  )
}

function sameCounts(a: Readonly<Record<string, number>>, b: Readonly<Record<string, number>>): boolean {
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].every((reason) => (a[reason] ?? 0) === (b[reason] ?? 0))
}
