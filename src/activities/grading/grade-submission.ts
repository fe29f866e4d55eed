import type { ArtifactRef, ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { Disposition, EpisodeRecord, GradingAttemptRecord, VerdictRecord } from '../../contracts/episodes.types.ts'
import { episodeId, episodeKeys } from '../../contracts/keys.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import type { EpisodeInput, EpisodeResult } from '../../contracts/workflows.types.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { hasEveryTurn, recordOutcome } from '../episode/episode-result.ts'
import { verdictSuite } from '../evaluation/suite-origin.ts'
import { type TaskReader, gatedDigest, readUnlessCorrupt } from '../runtime/stored-records.ts'
import { gradingFailed, isHostFailure, reasonOf, gradeToVerdict } from './grade-to-verdict.ts'
import { sandboxLimits } from '../episode/open-sandbox.ts'
import type { Graded, GradingDependencies } from './run-grading.ts'
import { isPolicyDisposition, ungradedVerdict } from '../../domain/ledger/episode-fates.ts'

/** No repair is larger. A larger patch is an attack on the store, the grading container or the report. */
export const MAX_PATCH_BYTES = 5_000_000

interface SubmissionInput extends EpisodeInput {
  disposition: Disposition
  patch: ArtifactRef | null
  owner: string
  ownerRun: string
  attempt: number
  /** Whether this is the last attempt, whose failure becomes the reason for having no verdict. */
  isLastAttempt: boolean
}

type GradeDependencies = GradingDependencies & { recipe: Recipe; tasks: TaskReader; hostId: string }

/**
 * Determines the verdict and the last record of an episode. Rewards come only from hidden tests in a fresh container, with one
 * exception: an empty, missing or oversized patch takes the gate's result (`from: 'gate'`), because the gate has proven that an empty
 * patch does not resolve.
 */
export async function gradeSubmission(
  deps: GradeDependencies,
  input: SubmissionInput,
  signal: AbortSignal,
): Promise<EpisodeResult> {
  const ended = await endedBefore(deps.store, episodeId(input))
  if (ended !== null) return ended
  const task = await deps.tasks({ suite: input.suite, taskId: input.taskId })
  const stored = await deps.store.readRecord<VerdictRecord>(episodeKeys.verdict(episodeId(input)))
  const record = stored ?? (await firstVerdict(deps, input, task, signal))
  return recordOutcome(deps.store, input, {
    disposition: input.disposition,
    failure: null,
    verdict: record.kind,
    verdictReason: record.reason,
    signs: record.signs,
    audit: record.audit,
    patchBytes: input.patch?.bytes ?? 0,
  })
}

/** A person has reset an episode that had ended. A verdict that its result does not count would contradict it. */
async function endedBefore(store: Pick<ArtifactStore, 'readRecord'>, episode: string): Promise<EpisodeResult | null> {
  const result = await store.readRecord<EpisodeRecord>(episodeKeys.result(episode))
  if (result === null) return null
  const { disposition, verdict, turns, failure } = result
  return { episode, disposition, verdict, turns, failure }
}

/** The first verdict to be stored counts; concurrent attempts return that one. */
async function firstVerdict(
  deps: GradeDependencies,
  input: SubmissionInput,
  task: Task,
  signal: AbortSignal,
): Promise<VerdictRecord> {
  const episode = episodeId(input)
  const graded = await verdictOrReason(deps, input, task, signal)
  const suite = await verdictSuite(deps.store, input.suite)
  const { record } = await deps.store.claimRecord<VerdictRecord>(episodeKeys.verdict(episode), {
    ...(suite === null ? {} : { suite }),
    ...graded,
    schema: 'longhaul.verdict/1',
    episode,
  })
  return record
}

/**
 * The host may have caused the failure, so the attempt fails and any host takes the next one. After the last attempt the episode is
 * excluded with the reason and never scored.
 */
async function verdictOrReason(
  deps: GradeDependencies,
  input: SubmissionInput,
  task: Task,
  signal: AbortSignal,
): Promise<Graded> {
  try {
    return await verdictOf(deps, input, task, signal)
  } catch (error) {
    if (signal.aborted || !isHostFailure(error)) throw error
    const { attempt, isLastAttempt } = input
    const episode = episodeId(input)
    await deps.store.claimRecord<GradingAttemptRecord>(episodeKeys.gradingAttempt(episode, attempt), {
      schema: 'longhaul.grading-attempt/1',
      episode,
      attempt,
      hostId: deps.hostId,
      failure: error.code,
      message: error.message,
      atMs: Date.now(),
    })
    if (isLastAttempt) return couldNotGrade(task, reasonOf(error.code), await patchHash(deps, input))
    throw gradingFailed(error, { host: deps.hostId, attempt })
  }
}

async function verdictOf(
  deps: GradeDependencies,
  input: SubmissionInput,
  task: Task,
  signal: AbortSignal,
): Promise<Graded> {
  if (input.patch === null) return fromGate(task, 'not-submitted')
  if (input.patch.bytes === 0) return fromGate(task, 'empty-patch')
  if (input.patch.bytes > MAX_PATCH_BYTES) {
    return { ...fromGate(task, 'patch-too-large'), patchSha256: input.patch.sha256 }
  }
  const episode = episodeId(input)
  return gradeToVerdict(
    deps,
    {
      hostId: deps.hostId,
      attempt: input.attempt,
      isLastAttempt: input.isLastAttempt,
      run: input.run,
      episode,
      owner: input.owner,
      ownerRun: input.ownerRun,
      role: 'grader',
      limits: sandboxLimits(deps.recipe),
      patch: await deps.store.get(input.patch),
      ...(await gatedDigest(deps.store, input)),
      task,
      keyOf: (file) => episodeKeys.grading(episode, task.gradingProfile, file),
    },
    signal,
  )
}

async function patchHash({ store }: GradeDependencies, { patch }: SubmissionInput): Promise<string> {
  return sha256Hex(patch === null ? '' : await store.get(patch))
}

function couldNotGrade(task: Task, reason: string, patchSha256: string): Graded {
  return {
    taskId: task.taskId,
    kind: 'could-not-grade',
    reason,
    profile: task.gradingProfile,
    from: 'container',
    patchSha256,
    failToPass: { passed: 0, total: task.failToPass.length },
    passToPass: { passed: 0, total: task.passToPass.length },
    gradeMs: 0,
    image: task.image,
    signs: [],
  }
}

function fromGate(task: Task, reason: string): Graded {
  return {
    taskId: task.taskId,
    kind: 'unresolved',
    reason,
    profile: task.gradingProfile,
    from: 'gate',
    patchSha256: sha256Hex(''),
    failToPass: { passed: 0, total: task.failToPass.length },
    passToPass: { passed: task.passToPass.length, total: task.passToPass.length },
    gradeMs: 0,
    image: task.image,
    signs: [],
  }
}

/**
 * The final record of an episode whose grading never finished. A submission that could not be graded has no reward, counts in no mean,
 * and enters the ledger as excluded. A verdict that a grader recorded before it died still counts.
 */
export async function recordUngraded(
  store: ArtifactStore,
  input: EpisodeInput & { disposition: Disposition; failure: string | null },
): Promise<EpisodeResult> {
  const { disposition, failure } = input
  const isJudged = isPolicyDisposition(disposition)
  // Without its turns an episode can be neither trained on nor judged, whatever its patch does: it is like a submission without a grade.
  const lacksTurns = isJudged && !(await hasEveryTurn(store, episodeId(input), disposition))
  const key = episodeKeys.verdict(episodeId(input))
  const graded = isJudged && !lacksTurns ? await readUnlessCorrupt<VerdictRecord>(store, key) : null
  const { verdict, reason } =
    graded === null
      ? ungradedVerdict(lacksTurns ? 'submitted' : disposition)
      : { verdict: graded.kind, reason: graded.reason }
  const verdictReason = verdict === 'could-not-grade' && graded === null ? (failure ?? reason) : reason
  const signs = graded?.signs ?? []
  const audit = graded?.audit
  return recordOutcome(store, input, { disposition, failure, verdict, verdictReason, signs, audit, patchBytes: 0 })
}
