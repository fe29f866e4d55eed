import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { evaluationName, purposeOf } from '../../contracts/episode-purpose.ts'
import { episodeKeys, runKeys } from '../../contracts/keys.ts'
import type { EpisodeRecord } from '../../contracts/episodes.types.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import type { EpisodeFate } from '../../domain/ledger/episode-fates.ts'
import {
  buildEvaluationLedger,
  buildTrainingLedger,
  type Ledger,
  type LedgerTotals,
  sumTotals,
  unpaidIn,
} from '../../domain/ledger/ledger.ts'
import { type LedgerMismatch, verifyLedger } from '../../domain/ledger/verify-ledger.ts'
import { readOrThrow } from '../runtime/stored-records.ts'
import { selectEpisodes } from './build-batch.ts'
import { parseBatchManifest } from '../../adapters/trainer-job/batch/read-batch.ts'

export interface LedgerCheck {
  run: string
  totals: LedgerTotals
  ledgers: number
  mismatches: LedgerMismatch[]
}

/**
 * Derives the ledgers of a run again from its records and batches, and compares. Every episode of a finished iteration must be
 * accounted for exactly once. Episodes of an open iteration (no ledger yet) do not count as missing.
 */
export async function checkLedger(
  { store, recipe }: { store: ArtifactStore; recipe: Recipe },
  run: string,
): Promise<LedgerCheck> {
  const keys = await store.list(runKeys.folder(run))
  const ledgers = await readAll<Ledger>(
    store,
    keys.filter((key) => key.endsWith('/ledger.json')),
  )
  const batches = await readBatches(store, builtBatches(run, keys))
  const records = await readEpisodes(store, run, ledgers)
  const derived = ledgers.map((ledger) => deriveAgain(recipe, ledger, recordsOf(records, ledger), batches))
  return {
    run,
    totals: sumTotals(ledgers),
    ledgers: ledgers.length,
    mismatches: verifyLedger({ ledgers, records, batches, derived }),
  }
}

/** The manifests of a run's batches without those of an iteration that is being built: its ledger follows, and training after that. */
function builtBatches(run: string, keys: readonly string[]): string[] {
  const isBuilt = (iteration: string): boolean => {
    const [stage, number] = iteration.slice(runKeys.folder(run).length).split('/iterations/')
    const signs = [
      `${iteration}/ledger.json`,
      `${iteration}/job-`,
      `${runKeys.folder(run)}training/${stage}/${number}-`,
    ]
    return keys.some((key) => signs.some((sign) => key.startsWith(sign)))
  }
  return keys.filter((key) => key.endsWith('/batch.json') && isBuilt(key.slice(0, key.lastIndexOf('/batch-'))))
}

interface BatchMembers {
  key: string
  episodes: string[]
  /** Rows of fine-tuning episodes in addition to those of the iteration. */
  experts: string[]
}

async function readAll<T extends object>(store: ArtifactStore, keys: readonly string[]): Promise<T[]> {
  const records: T[] = []
  for (const key of keys) records.push(await readOrThrow<T>(store, key))
  return records
}

async function readBatches(store: ArtifactStore, keys: readonly string[]): Promise<BatchMembers[]> {
  const batches: BatchMembers[] = []
  for (const key of keys) {
    const { trajectories } = parseBatchManifest(key, await store.read(key))
    const idsOf = (isExpert: boolean): string[] =>
      trajectories.flatMap(({ id, expert }) => ((expert !== undefined) === isExpert ? [id] : []))
    batches.push({ key, episodes: idsOf(false), experts: idsOf(true) })
  }
  return batches
}

async function readEpisodes(store: ArtifactStore, run: string, ledgers: readonly Ledger[]): Promise<EpisodeRecord[]> {
  const keys = (await store.list(episodeKeys.ofRun(run))).filter((key) => key.endsWith('/result.json'))
  const records = await readAll<EpisodeRecord>(store, keys)
  return records.filter((record) => ledgers.some((ledger) => isOf(record, ledger)))
}

function recordsOf(records: readonly EpisodeRecord[], ledger: Ledger): EpisodeRecord[] {
  return records.filter((record) => isOf(record, ledger))
}

function isOf(record: EpisodeRecord, { stage, iteration }: Ledger): boolean {
  return record.stage === stage && record.iteration === iteration
}

function deriveAgain(
  recipe: Recipe,
  ledger: Ledger,
  records: EpisodeRecord[],
  batches: readonly BatchMembers[],
): Ledger {
  const { run, stage, iteration } = ledger
  const unpaid = unpaidIn(records, recipe)
  const purpose = purposeOf(stage)
  if (purpose.kind === 'evaluation') {
    return buildEvaluationLedger({ run, stage, iteration, records, evaluation: evaluationName(purpose), unpaid })
  }
  const batchOf = new Map(batches.flatMap(({ key, episodes }) => episodes.map((episode) => [episode, key] as const)))
  const { fates } = selectEpisodes(recipe, stage, records)
  return buildTrainingLedger({
    run,
    stage,
    iteration,
    batchOf,
    unpaid,
    fates: fates.map((fate) => leftOver(fate, ledger, batchOf)),
  })
}

/** The rules kept the episode but no batch contains it. The ledger must give one of the possible reasons, which records alone do not
 *  tell. */
function leftOver(fate: EpisodeFate, ledger: Ledger, batchOf: ReadonlyMap<string, string>): EpisodeFate {
  if (fate.kind !== 'train' || batchOf.has(fate.episode)) return fate
  const entry = ledger.entries.find(({ episode }) => episode === fate.episode)
  const { episode } = fate
  const because = entry?.fate === 'dropped' ? entry.because : null
  if (because === 'over-step-limit') return { kind: 'dropped', episode, reason: because }
  // Its partner had no token to train on.
  if (because === 'unpaired' && fate.pair !== undefined) return { kind: 'dropped', episode, reason: because }
  return { kind: 'dropped', episode, reason: 'no-loss-token' }
}
