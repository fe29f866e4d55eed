import { setTimeout as later } from 'node:timers/promises'
import { nearNames } from '../../domain/near-names.ts'
import type { RunKind } from '../../contracts/activities.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { gradingKeys, isRunName, removalKeys, runKeys } from '../../contracts/keys.ts'
import type { RunClaim } from '../../contracts/run-records.types.ts'

export interface AllocateRunInput extends Omit<RunClaim, 'schema' | 'run' | 'startedAt'> {
  /** A name given by the user. It continues that run or creates it. */
  run: string | undefined
  date: string
}

/** Names continue after z with aa, ab, …, so that a busy day is no error. */
const MAX_NAMES_A_DAY = 26 * 27

export async function allocateRun(store: ArtifactStore, input: AllocateRunInput): Promise<RunClaim> {
  if (input.run !== undefined) return claimNamed(store, input, input.run)
  const requested = requestedName(input)
  if (requested !== null && !(await isBeingRemoved(store, requested))) {
    const { record, won } = await claim(store, input, requested)
    const isFree = won || isOurs(record, input) || isStartedAgain(record, input)
    if (isFree && !(await isBeingRemoved(store, requested))) return record
  }
  const prefix = `${input.recipe}-${input.date}`
  for (let number = 0; number < MAX_NAMES_A_DAY; number++) {
    const name = `${prefix}-${letters(number)}`
    if (await isBeingRemoved(store, name)) continue
    const { record, won } = await claim(store, input, name)
    // A removal that began meanwhile takes the claim with the rest.
    if ((won || isOurs(record, input)) && !(await isBeingRemoved(store, name))) return record
  }
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `No free run name is left for ${prefix}; choose one with run`,
  })
}

async function claimNamed(store: ArtifactStore, input: AllocateRunInput, run: string): Promise<RunClaim> {
  await requireWhole(store, run)
  const { record, won } = await claim(store, input, run)
  // A removal that began meanwhile has looked for open workflows before this one had the run's name.
  await requireWhole(store, run)
  if (won || isSameWork(record, input)) return record
  if (record.kind !== input.kind) {
    throw new LonghaulError({
      code: 'Run.RecipeConflict',
      message: `Run ${run} exists and ${DOES[record.kind]}. Choose another name`,
      details: { run },
    })
  }
  if (!isSamePolicy(record, input)) {
    throw new LonghaulError({
      code: 'Run.RecipeConflict',
      message: `Run ${run} exists and evaluates the policy ${record.policy}, not ${input.policy}. Choose another name, or start it with the policy that it was started with`,
      details: { run },
    })
  }
  throw new LonghaulError({
    code: 'Run.RecipeConflict',
    message: `Run ${run} exists with another recipe. Choose another name, or start it with the recipe that it was made from`,
    details: { run, stored: record.recipeHash.slice(0, 12), given: input.recipeHash.slice(0, 12) },
  })
}

/** @throws LonghaulError `Config.Invalid` if the run is being removed */
export async function requireWhole(store: ArtifactStore, run: string): Promise<void> {
  if (!(await isBeingRemoved(store, run))) return
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Run ${run} is being removed, and half of its records may be gone: longhaul run remove ${run} completes the removal and frees the name`,
    details: { run },
  })
}

const DOES: Record<RunKind, string> = {
  train: 'trains',
  eval: 'evaluates',
  grade: 'grades patches',
  gate: 'gates a suite',
}

/** A workflow started as `train/<name>` or `eval/<name>` prefers that name for its run. */
export function requestedName({ workflowId, kind }: Pick<AllocateRunInput, 'workflowId' | 'kind'>): string | null {
  const prefix = `${kind}/`
  return workflowId.startsWith(prefix) && isRunName(workflowId.slice(prefix.length))
    ? workflowId.slice(prefix.length)
    : null
}

/** Maximum number of names that an error suggests. */
const MOST_SUGGESTED = 5

/** For a command that reads or removes a run's records. */
export async function unknownRun(
  store: Pick<ArtifactStore, 'locate' | 'folders'>,
  run: string,
  cause?: unknown,
): Promise<LonghaulError> {
  const runs = await store.folders('runs/').catch(() => [])
  // A name often lacks its end, the day and a letter.
  const begun = runs.filter((name) => run !== '' && name.startsWith(run)).toReversed()
  const near = [...new Set([...begun, ...nearNames(run, runs)])].slice(0, MOST_SUGGESTED)
  const meant = near.length === 0 ? '; set' : `; did you mean ${near.join(' or ')}? Else set`
  return new LonghaulError({
    code: 'Config.NotFound',
    message: `No run called ${JSON.stringify(run)} is in the artifact store at ${store.locate('runs')}${meant} LONGHAUL_ARTIFACTS to use another store`,
    cause,
  })
}

/** @throws LonghaulError `Config.NotFound` with near names, if the store has nothing of a run of this name */
export async function requireKnownRun(store: Pick<ArtifactStore, 'locate' | 'folders'>, run: string): Promise<void> {
  if (!(await store.folders('runs/')).includes(run)) throw await unknownRun(store, run)
}

type RunWithEpisodes = RunClaim & { kind: 'train' | 'eval' }

/**
 * Of a command that reads what episodes have left: a run without any would pass each of its checks.
 * @returns null for a run without a claim
 * @throws LonghaulError `Config.Invalid` for a run that gates or grades, with what it has instead
 */
export async function requireRunWithEpisodes(
  store: Pick<ArtifactStore, 'readRecord' | 'locate'>,
  run: string,
): Promise<RunWithEpisodes | null> {
  const claim = await store.readRecord<RunClaim>(runKeys.claim(run))
  if (claim?.kind !== 'gate' && claim?.kind !== 'grade') return claim as RunWithEpisodes | null
  const refused = (what: string) => new LonghaulError({ code: 'Config.Invalid', message: `Run ${run} ${what}` })
  if (claim.kind === 'gate') {
    throw refused(`gated a suite and has no episodes: what it found is in ${store.locate(`runs/${run}/gates`)}`)
  }
  throw (await store.readRecord(gradingKeys.result(run))) === null
    ? refused('grades patches and has not ended: its verdicts can be read when it has')
    : refused(`grades patches and has no episodes: longhaul report ${run} shows its verdicts`)
}

/** @throws LonghaulError `Config.Invalid` for a name that could not be part of ids and keys */
export function requireRunName(run: string | undefined): void {
  if (run === undefined || isRunName(run)) return
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected run to be 1 to 100 letters, digits, ".", "_" or "-", got ${JSON.stringify(run)}`,
  })
}

function claim(
  store: ArtifactStore,
  input: AllocateRunInput,
  run: string,
): Promise<{ record: RunClaim; won: boolean }> {
  const { kind, recipe, recipeHash, workflowId, firstExecutionRunId, evaluation, policy } = input
  const record: RunClaim = {
    schema: 'longhaul.run/1',
    run,
    kind,
    recipe,
    recipeHash,
    workflowId,
    firstExecutionRunId,
    startedAt: new Date().toISOString(),
    ...(evaluation === undefined ? {} : { evaluation }),
    ...(policy === undefined ? {} : { policy }),
  }
  return store.claimRecord<RunClaim>(runKeys.claim(run), record)
}

/** Workers keep the records of a run for `RUN_RECORDS_FRESH_MS`, and a clock may be a little ahead. */
const FORGOTTEN_AFTER_MS = 35_000

/**
 * Waits until no worker knows the records of a run of this name that was just removed: it would play the new run by the recipe of the
 * removed one. Called when the name is claimed, and before its first record is read.
 */
export async function untilForgotten(
  store: Pick<ArtifactStore, 'list'>,
  run: string,
  { now, sleep }: { now: () => number; sleep: (ms: number) => Promise<unknown> } = { now: Date.now, sleep: later },
): Promise<void> {
  const removed = (await store.list(removalKeys.allRemoved(run))).map(removalKeys.signedAtMs)
  if (removed.length === 0) return
  const leftMs = Math.max(...removed) + FORGOTTEN_AFTER_MS - now()
  if (leftMs > 0) await sleep(Math.min(leftMs, FORGOTTEN_AFTER_MS))
}

/** A removal has begun and is not complete. */
export async function isBeingRemoved(store: ArtifactStore, run: string): Promise<boolean> {
  return (await store.readRecord(removalKeys.begun(run))) !== null
}

/** A repeated attempt of the same execution finds its own claim. */
function isOurs(record: RunClaim, { workflowId, firstExecutionRunId }: AllocateRunInput): boolean {
  return record.workflowId === workflowId && record.firstExecutionRunId === firstExecutionRunId
}

/** A workflow with the same id and request continues the run, because the execution that made it has ended. */
function isStartedAgain(record: RunClaim, input: AllocateRunInput): boolean {
  return record.workflowId === input.workflowId && isSameWork(record, input)
}

function isSameWork(record: RunClaim, input: AllocateRunInput): boolean {
  return record.recipeHash === input.recipeHash && record.kind === input.kind && isSamePolicy(record, input)
}

function isSamePolicy(record: RunClaim, { policy }: AllocateRunInput): boolean {
  return record.policy === undefined || record.policy === policy
}

/** 0 → a, 25 → z, 26 → aa. */
export function letters(number: number): string {
  const last = String.fromCharCode(97 + (number % 26))
  return number < 26 ? last : letters(Math.floor(number / 26) - 1) + last
}
