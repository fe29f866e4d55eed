import { randomUUID } from 'node:crypto'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { parseRecipeText } from '../../adapters/recipes/recipe-text.ts'
import { pushedRecipes } from '../../adapters/recipes/pushed-recipes.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { NightRecord } from '../../contracts/nights.types.ts'
import type { GradingPlan } from '../../contracts/grading.types.ts'
import { episodeKeys, gradingKeys, nightKeys, removalKeys, runKeys } from '../../contracts/keys.ts'
import { createSlots } from '../../platform/limiter.ts'
import { findNewestPromotion } from '../training/policies.ts'
import { readUnlessCorrupt } from '../runtime/stored-records.ts'
import { lastPlayer } from './play-alone.ts'
import { isBeingRemoved, unknownRun } from './run-names.ts'
import type { RemovalBegun, StoredRecipe } from '../../contracts/run-records.types.ts'

/** A run's stored records, and the remaining records that are compared with it. */
export interface RunHoldings {
  run: string
  /** Number of keys of its episodes, and of all its other records. */
  episodes: number
  records: number
  /** Series in which it is the newest night or has the newest main evaluation, with which the next one is compared. */
  newestNightOf: string[]
  /** Series whose newest night is compared with it as the baseline that its recipe names, and so will the next one be. */
  baselineOf: string[]
  /** Pushed recipes that name it as their baseline. */
  baselineInRecipes: string[]
  /** Grading runs without a result that read its patches. */
  regradedBy: string[]
  /** Runs without a report that are compared with it at their end. */
  comparedBy: string[]
  /** It made the promoted policy, so the next promotion may be judged against its evaluation. */
  isPromoted: boolean
  /** An earlier removal was not completed. */
  isBeingRemoved: boolean
}

export interface RemovedRun {
  run: string
  removed: number
}

/** Everything that belongs only to the run. Suites, gates, policies, checkpoints and lineage are shared. */
const FOLDERS = [episodeKeys.ofRun, runKeys.folder] as const

/** Runs whose plans are read concurrently. */
const PLANS_AT_ONCE = 16

/** @throws LonghaulError `Config.NotFound` */
export async function lookAtHoldings(store: ArtifactStore, run: string): Promise<RunHoldings> {
  const [episodes, records] = await Promise.all(FOLDERS.map((folderOf) => countKeys(store, folderOf(run))))
  let besides = 0
  for (const folder of await regradingFolders(store, run)) besides += await countKeys(store, folder)
  const begun = await isBeingRemoved(store, run)
  if (episodes === 0 && records === 0 && !begun) {
    throw await unknownRun(store, run)
  }
  const newest = await findNewestPromotion(store)
  return {
    run,
    episodes: episodes ?? 0,
    records: (records ?? 0) + besides,
    ...(await usesInRuns(store, run)),
    ...(await usesInNights(store, run)),
    baselineInRecipes: await recipesAgainst(store, run),
    isPromoted: newest?.run === run,
    isBeingRemoved: begun,
  }
}

/**
 * Permanently removes a run's records from the store. Meanwhile no run can take the name, because half of the records would be taken
 * for a complete run. An interrupted removal is started again; of two concurrent ones the second is refused.
 * @param isOpen called after the name is refused to new executions, with the workflow that played the run last; if one is open, nothing
 *   is removed
 * @param now ms since 1970. @default the clock's
 * @throws LonghaulError `Run.StillClosing`
 */
export async function removeRun(
  store: ArtifactStore,
  run: string,
  isOpen: (lastPlayer: string | null) => Promise<string | null>,
  now?: () => number,
): Promise<RemovedRun> {
  const claim = await beginRemoval(store, run, now)
  try {
    const open = await isOpen((await lastPlayer(store, run))?.workflowId ?? null)
    if (open !== null) {
      throw new LonghaulError({
        code: 'Run.StillClosing',
        message: `Nothing was removed: ${open} is under way. longhaul run cancel ${run} ends it; then remove it`,
        details: { run, open },
      })
    }
    claim.removes()
    let removed = 0
    // The plan that names the first of them goes last.
    const own = FOLDERS.map((folderOf) => folderOf(run))
    for (const folder of [...(await regradingFolders(store, run)), ...own]) {
      await claim.requireHeld()
      removed += await store.removeFolder(folder)
    }
    await claim.end()
    return { run, removed }
  } catch (error) {
    await claim.giveUp()
    throw error
  }
}

/**
 * Where a grading run keeps its verdicts on patches of other runs: beside those patches. A later run of its name would take them for its
 * own and grade nothing.
 */
async function regradingFolders(store: ArtifactStore, run: string): Promise<string[]> {
  const plan = await readUnlessCorrupt<GradingPlan>(store, gradingKeys.plan(run))
  const folders = (plan?.instances ?? []).flatMap(({ episode, profile }) =>
    episode === null || episode.startsWith(`${run}/`) ? [] : [gradingKeys.again({ run, profile, episode })],
  )
  return [...new Set(folders)]
}

/** Other runs that are not over and need the records of this one until then. */
async function usesInRuns(store: ArtifactStore, run: string): Promise<Pick<RunHoldings, 'regradedBy' | 'comparedBy'>> {
  const slots = createSlots(PLANS_AT_ONCE)
  const others = (await store.folders('runs/')).filter((other) => other !== run)
  const those = async (needIt: (other: string) => Promise<boolean>): Promise<string[]> => {
    const found = await Promise.all(
      others.map((other) => slots.use(async () => ((await needIt(other)) ? [other] : []))),
    )
    return found.flat()
  }
  return {
    regradedBy: await those(async (other) => {
      const plan = await readUnlessCorrupt<GradingPlan>(store, gradingKeys.plan(other))
      if (!plan?.instances.some(({ episode }) => episode?.startsWith(`${run}/`) === true)) return false
      return (await readUnlessCorrupt(store, gradingKeys.result(other))) === null
    }),
    comparedBy: await those(async (other) => {
      if (!isOfRun(await baselineOfRun(store, other), run)) return false
      return (await store.list(runKeys.report(other, ''))).length === 0
    }),
  }
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

type UsesInNights = Pick<RunHoldings, 'newestNightOf' | 'baselineOf'>

async function usesInNights(store: ArtifactStore, run: string): Promise<UsesInNights> {
  const uses: UsesInNights = { newestNightOf: [], baselineOf: [] }
  for (const series of await store.folders(nightKeys.all)) {
    const keys = (await store.list(nightKeys.series(series))).toReversed()
    // A night that ended early may have compared only another suite or policy, so the next main evaluation looks further back.
    const newest = new Set([keys[0], await newestMain(store, keys)].flatMap((key) => nightRunOf(key)))
    if (newest.has(run)) uses.newestNightOf.push(series)
    for (const night of newest) {
      const baseline = await baselineOfRun(store, night)
      if (isOfRun(baseline, run) && !uses.baselineOf.includes(series)) uses.baselineOf.push(series)
    }
  }
  return uses
}

function nightRunOf(key: string | undefined): string[] {
  const run = key === undefined ? undefined : nightKeys.runOf(key)
  return run === undefined ? [] : [run]
}

/** Nights may outlive the records of their run. */
async function baselineOfRun(store: ArtifactStore, run: string): Promise<unknown> {
  return baselineIn((await readUnlessCorrupt<StoredRecipe>(store, runKeys.recipe(run)))?.recipe)
}

async function recipesAgainst(store: ArtifactStore, run: string): Promise<string[]> {
  const pushed = pushedRecipes(store)
  const found: string[] = []
  for (const name of await pushed.names()) {
    const text = await pushed.read(name)
    if (text !== null && isOfRun(baselineIn(parseRecipeText(text).value), run)) found.push(name)
  }
  return found
}

/** A recipe as it was written or stored. Keys of other versions may be missing. */
function baselineIn(recipe: unknown): unknown {
  const { evaluate } = (recipe ?? {}) as { evaluate?: { compare?: { baseline?: unknown } | null } | null }
  return evaluate?.compare?.baseline
}

/** Parses `RUN` or `RUN:EVALUATION`. */
function isOfRun(baseline: unknown, run: string): boolean {
  return typeof baseline === 'string' && baseline.split(':')[0] === run
}

async function newestMain(store: ArtifactStore, keys: readonly string[]): Promise<string | undefined> {
  for (const key of keys) if ((await store.readRecord<NightRecord>(key))?.role === 'main') return key
  return undefined
}

/** A command without a sign of life for a minute was killed, because it renews its mark every ten seconds. */
const SIGN_EVERY_MS = 10_000
const ALIVE_FOR_MS = 60_000

export interface RemovalClaim {
  /** Declares that records will be removed. If the command gives up after this, the run's name stays refused. */
  removes(): void
  /** @throws LonghaulError `Run.StillClosing` if another command has taken over the removal meanwhile */
  requireHeld(): Promise<void>
  /** Everything is removed, so the name is free. */
  end(): Promise<void>
  /** Never throws. If the mark cannot be updated now, it expires a minute later. */
  giveUp(): Promise<void>
}

/**
 * Claims the right to remove a run, for one command at a time. The end of a first command frees the name, and a second one would then
 * remove what a new run has stored under it. The next command takes over a removal that was killed or failed.
 * @throws LonghaulError `Run.StillClosing` if another command is running
 */
export async function beginRemoval(
  store: ArtifactStore,
  run: string,
  now: () => number = Date.now,
): Promise<RemovalClaim> {
  const mark: RemovalBegun = { schema: 'longhaul.removal/1', run, id: randomUUID(), begunAtMs: now() }
  const { record: begun, won } = await store.claimRecord<RemovalBegun>(removalKeys.begun(run), mark)
  const number = won ? 0 : await takeUp(store, begun, now)
  const sign = (): void => void store.putRecord(removalKeys.sign(run, number, now()), { run }).catch(() => undefined)
  const signing = setInterval(sign, SIGN_EVERY_MS)
  signing.unref()
  let isWhole = won
  const isHeld = async (): Promise<boolean> => {
    const stored = await store.readRecord<RemovalBegun>(removalKeys.begun(run))
    return stored !== null && stored.id === begun.id && (await lastNumber(store, run)) === number
  }
  return {
    removes: () => {
      isWhole = false
    },
    async requireHeld() {
      if (!(await isHeld())) throw another(run, 'has gone on with the removal of')
    },
    async end() {
      clearInterval(signing)
      // Stored before the name is free. Only the last one is of use.
      await store.removeFolder(removalKeys.allRemoved(run))
      await store.putRecord(removalKeys.removed(run, now()), { run })
      await store.removeFolder(removalKeys.folder(run))
    },
    async giveUp() {
      clearInterval(signing)
      try {
        await store.removeFolder(removalKeys.signs(run, number))
        if (!(await isHeld())) return
        // A remaining mark would refuse the name of a complete run, and send its operator here to remove it.
        if (isWhole) await store.removeFolder(removalKeys.folder(run))
        else await store.putRecord(removalKeys.givenUp(run, number), { run })
      } catch {
        // The next command takes over the removal a minute later.
      }
    },
  }
}

/** @returns the number of this command among those that have taken over the removal */
async function takeUp(store: ArtifactStore, begun: RemovalBegun, now: () => number): Promise<number> {
  const { run } = begun
  const last = await lastNumber(store, run)
  const hasGivenUp = (await store.readRecord(removalKeys.givenUp(run, last))) !== null
  if (!hasGivenUp && now() - (await lastSignMs(store, begun, last)) < ALIVE_FOR_MS) throw another(run, 'removes')
  const { won } = await store.claimRecord(removalKeys.takenUp(run, last + 1), { id: randomUUID(), atMs: now() })
  if (!won) throw another(run, 'removes')
  return last + 1
}

async function lastNumber(store: ArtifactStore, run: string): Promise<number> {
  return (await store.list(removalKeys.allTakenUp(run))).length
}

async function lastSignMs(store: ArtifactStore, { run, begunAtMs = 0 }: RemovalBegun, number: number): Promise<number> {
  const taken = number === 0 ? null : await store.readRecord<{ atMs: number }>(removalKeys.takenUp(run, number))
  const signs = (await store.list(removalKeys.signs(run, number))).map(removalKeys.signedAtMs)
  return Math.max(number === 0 ? begunAtMs : (taken?.atMs ?? 0), ...signs)
}

function another(run: string, does: string): LonghaulError {
  return new LonghaulError({
    code: 'Run.StillClosing',
    message: `Another command ${does} ${run} and frees its name when it ends. If it was killed, repeat this command after a minute`,
    details: { run },
  })
}
