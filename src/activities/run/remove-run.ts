import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { NightRecord } from '../../contracts/nights.types.ts'
import { episodeKeys, nightKeys, removalKeys, runKeys } from '../../contracts/keys.ts'
import { findNewestPromotion } from '../training/policies.ts'
import { isBeingRemoved } from './run-names.ts'

/** What a run has in the store, and which of the things that stay are compared with it. */
export interface RunHoldings {
  run: string
  /** Keys of its episodes, and of everything else of it. */
  episodes: number
  records: number
  /** Series in which it is the newest night, or has the newest main evaluation: the next one is compared with it. */
  newestNightOf: string[]
  /** It made the policy that is promoted: the next promotion may be judged against its evaluation. */
  isPromoted: boolean
  /** An earlier removal did not come to its end. */
  isBeingRemoved: boolean
}

export interface RemovedRun {
  run: string
  removed: number
}

/** Everything of a run but what others share: suites, gates, policies, checkpoints and lineage belong to no run. */
const FOLDERS = [episodeKeys.ofRun, runKeys.folder] as const

/** @throws LonghaulError `Config.NotFound` */
export async function lookAtHoldings(store: ArtifactStore, run: string): Promise<RunHoldings> {
  const [episodes, records] = await Promise.all(FOLDERS.map((folderOf) => countKeys(store, folderOf(run))))
  const begun = await isBeingRemoved(store, run)
  if (episodes === 0 && records === 0 && !begun) {
    throw new LonghaulError({ code: 'Config.NotFound', message: `The artifact store holds nothing of a run ${run}` })
  }
  const newest = await findNewestPromotion(store)
  return {
    run,
    episodes: episodes ?? 0,
    records: records ?? 0,
    newestNightOf: await newestNightsOf(store, run),
    isPromoted: newest?.run === run,
    isBeingRemoved: begun,
  }
}

/**
 * Removes what a run has in the store, for good. While it is under way, no run can take the name: half of its records would be taken for
 * whole. A removal that was interrupted is begun again.
 * @param isOpen asked once the name is refused to new executions; while one is open nothing is removed
 * @throws LonghaulError `Run.StillClosing`
 */
export async function removeRun(
  store: ArtifactStore,
  run: string,
  isOpen: () => Promise<string | null>,
): Promise<RemovedRun> {
  const mark = { schema: 'longhaul.removal/1', run, begunAtMs: Date.now() }
  const { won } = await store.claimRecord(removalKeys.begun(run), mark)
  // Of this removal alone: an earlier one has left half a run.
  const takeBack = async (): Promise<void> => {
    if (won) await store.removeFolder(removalKeys.folder(run))
  }
  const open = await isOpen().catch(async (error: unknown): Promise<never> => {
    // A mark that stays refuses the name of a whole run, and sends its operator here to have it removed.
    await takeBack()
    throw error
  })
  if (open !== null) {
    await takeBack()
    throw new LonghaulError({
      code: 'Run.StillClosing',
      message: `Nothing was removed: ${open} is under way. longhaul run cancel ${run} ends it; then remove it`,
      details: { run, open },
    })
  }
  let removed = 0
  for (const folderOf of FOLDERS) removed += await store.removeFolder(folderOf(run))
  await store.removeFolder(removalKeys.folder(run))
  return { run, removed }
}

async function countKeys(store: ArtifactStore, prefix: string): Promise<number> {
  let count = 0
  for (let after: string | null = ''; after !== null; ) {
    const page: { keys: string[]; next: string | null } = await store.listPage({ prefix, after })
    count += page.keys.length
    after = page.next
  }
  return count
}

async function newestNightsOf(store: ArtifactStore, run: string): Promise<string[]> {
  const found: string[] = []
  for (const series of await store.folders(nightKeys.all)) {
    const keys = (await store.list(nightKeys.series(series))).toReversed()
    // A night that ended early may have compared another suite or policy alone: the next main evaluation looks further back.
    const newest = [keys[0], await newestMain(store, keys)]
    if (newest.some((key) => key !== undefined && nightKeys.runOf(key) === run)) found.push(series)
  }
  return found
}

async function newestMain(store: ArtifactStore, keys: readonly string[]): Promise<string | undefined> {
  for (const key of keys) if ((await store.readRecord<NightRecord>(key))?.role === 'main') return key
  return undefined
}
