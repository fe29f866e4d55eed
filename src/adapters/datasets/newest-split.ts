import { listFiles, type RepoDesignation } from '@huggingface/hub'
import { LonghaulError } from '../../contracts/errors.ts'
import type { PinnedSplit } from '../../contracts/suites.types.ts'
import { commitOf, patientFetch, PUBLIC_HUB } from '../hub/requests.ts'
import { explained } from './hub-files.ts'

/** A year and a month, `2026_03` or `2026-03`, so that names sort by date. */
const MONTH = /^(\d{4})[_-](0[1-9]|1[0-2])$/

/** `data/2026_03-00000-of-00002.parquet`, with or without a hash before the extension. */
const SHARD = /(?:^|\/)([^/]{1,100})-(\d{5})-of-(\d{5})(?:-[0-9a-f]{1,64})?\.parquet$/

export interface NewestSplitInput {
  dataset: string
  /** A commit; null for the current head of `main`. */
  revision: string | null
  /** Null for the public hub. */
  hubUrl: string | null
}

/**
 * Finds the newest monthly split whose files are all present, and the commit that contains it. A split that is still being published is
 * skipped and named in the answer.
 * @throws LonghaulError `Config.NotFound` for an unknown data set or one without monthly splits, `Artifact.Unavailable`
 */
export async function findNewestSplit({ dataset, revision, hubUrl }: NewestSplitInput): Promise<PinnedSplit> {
  const commit = revision ?? (await commitOfMain(dataset, hubUrl))
  const repo: RepoDesignation = { type: 'dataset', name: dataset }
  const where = { repo, revision: commit, fetch: patientFetch, ...(hubUrl === null ? {} : { hubUrl }) }
  const paths: string[] = []
  await explained({ facts: { dataset, revision: commit } }, async () => {
    for await (const { path } of listFiles({ ...where, recursive: true })) paths.push(path)
  })
  const { newest, passedOver, others } = newestOf(paths)
  if (newest !== null)
    return { schema: 'longhaul.pinned-split/1', dataset, revision: commit, split: newest, passedOver }
  throw new LonghaulError({
    code: 'Config.NotFound',
    message: `Expected a monthly split such as 2026_03 in ${dataset}, got ${describe(passedOver, others)}. Name one of its splits instead of split: newest, with the revision`,
    details: { dataset, revision: commit },
  })
}

function describe(incomplete: readonly string[], others: readonly string[]): string {
  if (incomplete.length > 0) return `only incomplete ones (${incomplete.join(', ')})`
  return others.length === 0 ? 'no Parquet files of any split' : others.slice(0, 8).join(', ')
}

interface SplitShards {
  found: Set<number>
  of: number
}

export function newestOf(paths: readonly string[]): { newest: string | null; passedOver: string[]; others: string[] } {
  const splits = new Map<string, SplitShards>()
  for (const path of paths) {
    const [, split, index, of] = SHARD.exec(path) ?? []
    if (split === undefined) continue
    const shards = splits.get(split) ?? { found: new Set<number>(), of: Number(of) }
    shards.found.add(Number(index))
    splits.set(split, shards)
  }
  const months = [...splits]
    .filter(([split]) => MONTH.test(split))
    .toSorted(([a], [b]) => (monthOf(a) < monthOf(b) ? 1 : -1))
  const isWhole = ([, { found, of }]: [string, SplitShards]): boolean => found.size === of
  const at = months.findIndex(isWhole)
  const missing = at === -1 ? months : months.slice(0, at)
  return {
    newest: months[at]?.[0] ?? null,
    passedOver: missing.map(([split, { found, of }]) => `${split}: ${found.size} of ${of} files`),
    others: [...splits.keys()].filter((split) => !MONTH.test(split)).toSorted(),
  }
}

function monthOf(split: string): string {
  const [, year, month] = MONTH.exec(split) ?? []
  return `${year}-${month}`
}

function commitOfMain(dataset: string, hubUrl: string | null): Promise<string> {
  const hub = { url: hubUrl ?? PUBLIC_HUB, fetch: patientFetch }
  return explained({ facts: { dataset, revision: 'main' } }, () =>
    commitOf(hub, { kind: 'datasets', name: dataset, revision: 'main' }),
  )
}
