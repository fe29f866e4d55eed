import type { ArtifactStore, ArtifactRef } from '../../contracts/artifacts.types.ts'
import { episodeId, episodeKeys, runKeys } from '../../contracts/keys.ts'
import type { SandboxHandle, SandboxHost, SandboxLimits } from '../../contracts/sandbox.types.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import type { EpisodeInput } from '../../contracts/workflows.types.ts'
import { scaffoldProfile } from '../../scaffold/profiles.ts'
import { type IterationReader, type TaskReader, gatedDigest, readUnlessCorrupt } from '../runtime/stored-records.ts'
import { episodeSpec } from './episode-spec.ts'
import { claimPlacement } from './claim-placement.ts'
import type { RecordedEnding } from '../../contracts/activities.types.ts'
import type { CaptureRecord, Disposition, DispositionRecord, EpisodeRecord } from '../../contracts/episodes.types.ts'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import { isValidEpisode } from '../../domain/ledger/episode-fates.ts'

interface OpenDependencies {
  store: ArtifactStore
  sandbox: SandboxHost
  recipe: Recipe
  tasks: TaskReader
  hostId: string
  /** The sandbox ends itself after this long without a request. */
  leaseMs: number
  /** Ensures that this host has the task's image. */
  ensureImage: EnsureImage
}

export type EnsureImage = (task: Awaited<ReturnType<TaskReader>>, signal: AbortSignal) => Promise<void>

/** Added to the episode's own limit, which excludes waits: time for a last attempt at some turns, the capture and the close. */
const MAX_LIFE_RESERVE_MS = 6 * 60 * 60_000

export async function openSandbox(
  deps: OpenDependencies,
  input: EpisodeInput & { placement: number; owner: string; ownerRun: string },
  signal: AbortSignal,
): Promise<SandboxHandle> {
  const spec = episodeSpec(deps.recipe, input)
  await deps.store.putRecord(episodeKeys.spec(spec.episode), spec)
  const task = await deps.tasks({ suite: input.suite, taskId: input.taskId })
  const { ownerRun } = input
  const { sandbox } = deps.recipe
  const placement = await claimPlacement(deps.store, {
    episode: spec.episode,
    requested: input.placement,
    ownerRun,
    hostId: deps.hostId,
    image: task.image,
  })
  await deps.ensureImage(task, signal)
  const handle = await deps.sandbox.open(
    {
      run: input.run,
      episode: episodeId(input),
      role: 'agent',
      placement,
      image: task.image,
      ...(await gatedDigest(deps.store, input)),
      repoDir: task.repoDir,
      scrubHistory: task.synthetic === null,
      tools: scaffoldProfile(spec.scaffold).tools,
      limits: sandboxLimits(deps.recipe),
      request: { cpus: sandbox.request.cpu, memoryMiB: sandbox.request.memGiB * 1024 },
      ...(sandbox.network === 'proxy' ? { allowedHosts: sandbox.allow } : {}),
      owner: input.owner,
      ownerRun,
      leaseMs: deps.leaseMs,
      maxLifeMs: spec.limits.episodeTimeoutMs + MAX_LIFE_RESERVE_MS,
    },
    signal,
  )
  return { ...handle, placement, ownerRun }
}

export function sandboxLimits({ sandbox }: Recipe): SandboxLimits {
  const { limit, runtime } = sandbox
  return {
    cpus: limit.cpu,
    memoryMiB: limit.memGiB * 1024,
    pids: limit.pids,
    ...(limit.diskGiB === null ? {} : { diskGiB: limit.diskGiB }),
    ...(runtime === null ? {} : { runtime }),
  }
}

/**
 * Returns how an episode ended in an earlier execution: with a result, or with a submission that only needs grading. Neither needs a
 * sandbox. Null if turns or the capture are left. A corrupt record counts as absent, because later steps detect it.
 */
export async function recordedEnding(store: ArtifactStore, input: EpisodeInput): Promise<RecordedEnding | null> {
  const episode = episodeId(input)
  const result = await readUnlessCorrupt<EpisodeRecord>(store, episodeKeys.result(episode))
  if (result !== null) {
    const { disposition, verdict, turns, failure } = result
    return { kind: 'result', result: { episode, disposition, verdict, turns, failure, recalled: true } }
  }
  const settled = await readUnlessCorrupt<DispositionRecord>(store, episodeKeys.disposition(episode))
  if (settled === null) return null
  const { disposition } = settled
  if (disposition !== 'submitted') return { kind: 'ended', disposition, patch: null }
  const patch = await capturedPatch(store, episode)
  return patch === null ? null : { kind: 'ended', disposition, patch }
}

/**
 * Refuses an episode that no ledger would name. Only a workflow that a person resets after the end of its iteration asks for one.
 * @throws LonghaulError `Run.EndedByHand`
 */
export async function requireOpenIteration(
  store: Pick<ArtifactStore, 'readRecord'>,
  { run, stage, iteration }: EpisodeInput,
): Promise<void> {
  const key = runKeys.ledger(run, stage, iteration)
  if ((await store.readRecord(key)) === null) return
  throw new LonghaulError({
    code: 'Run.EndedByHand',
    message: `Iteration ${iteration} of ${stage} has ended, and its ledger names each of its episodes: none can be played any more`,
    details: { run, key },
  })
}

/**
 * Refuses an episode that no group of the run plays: a person can start the workflow of an episode alone, and its verdict would be
 * scored and trained on beside those of its group.
 * @throws LonghaulError `Run.EndedByHand`
 */
export async function requireOwnPlace(
  { store, readPlan }: { store: Pick<ArtifactStore, 'readRecord'>; readPlan: IterationReader },
  input: EpisodeInput,
): Promise<void> {
  const { run, stage, iteration, taskId, index } = input
  const refused = (what: string): LonghaulError =>
    new LonghaulError({
      code: 'Run.EndedByHand',
      message: `Expected an episode that the run plays, but ${what}: it was started by hand, or records have disappeared. Only the run itself starts episodes`,
      details: { episode: episodeId(input) },
    })
  const plan = await readPlan(input)
  if (plan === null) throw refused(`iteration ${iteration} of ${stage} is not planned`)
  let { taskIds } = plan
  for (let round = 1; !taskIds.includes(taskId); round++) {
    const refill = await store.readRecord<{ taskIds: string[] }>(runKeys.refill(run, stage, iteration, round))
    if (refill === null) throw refused(`its plan has no task ${taskId}`)
    taskIds = refill.taskIds
  }
  // Listings of buckets may be old, so each record is asked for.
  const before = Array.from({ length: index < plan.groupSize ? 0 : index }, (_, other) => ({ ...input, index: other }))
  const lost = (await Promise.all(before.map((other) => isLost(store, other)))).filter(Boolean).length
  if (index < plan.groupSize + lost) return
  throw refused(`its group of ${plan.groupSize} has lost ${lost}, and this one is number ${index + 1}`)
}

async function isLost(store: Pick<ArtifactStore, 'readRecord'>, input: EpisodeInput): Promise<boolean> {
  try {
    const record = await store.readRecord<EpisodeRecord>(episodeKeys.result(episodeId(input)))
    return record !== null && !isValidEpisode(record)
  } catch (error) {
    if (isLonghaulError(error) && error.code === 'Artifact.Corrupt') return true
    throw error
  }
}

/**
 * Requires the records of the ending that is to be graded. A person can complete an activity by hand with any disposition and any patch,
 * and an episode that was not played to its end would get a verdict.
 * @throws LonghaulError `Artifact.Missing`
 */
export async function requireSettled(
  store: Pick<ArtifactStore, 'readRecord'>,
  input: EpisodeInput & { disposition: Disposition; patch: ArtifactRef | null },
): Promise<void> {
  const episode = episodeId(input)
  const { disposition, patch } = input
  const settled = await store.readRecord<DispositionRecord>(episodeKeys.disposition(episode))
  const captured = patch === null ? null : await store.readRecord<CaptureRecord>(episodeKeys.capture(episode))
  const isCaptured = disposition === 'submitted' ? captured !== null : patch === null
  // An invented size would count as an empty patch, or as one that is too large to grade.
  const isSame = captured?.sha256OfPatch === patch?.sha256 && captured?.bytes === patch?.bytes
  if (settled?.disposition === disposition && isCaptured && isSame) return
  throw new LonghaulError({
    code: 'Artifact.Missing',
    message: `Expected the records of an episode that ended as ${disposition}, got ${settled === null ? 'none' : settled.disposition}${isCaptured ? '' : ' without its patch'}. An activity that is completed by hand does not end an episode: cancel or terminate its workflow`,
    details: { episode },
  })
}

async function capturedPatch(store: ArtifactStore, episode: string): Promise<ArtifactRef | null> {
  const capture = await readUnlessCorrupt<CaptureRecord>(store, episodeKeys.capture(episode))
  if (capture === null) return null
  return { key: episodeKeys.patch(episode), sha256: capture.sha256OfPatch, bytes: capture.bytes }
}
