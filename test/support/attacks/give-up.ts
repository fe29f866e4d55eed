import { advanceEpisode, type AdvanceDependencies } from '../../../src/activities/episode/advance-episode.ts'
import { createTokenSampler } from '../../../src/activities/episode/samplers.ts'
import { lastRunBefore, readTurns } from '../../../src/activities/episode/transcript.ts'
import { recordUngraded, gradeSubmission } from '../../../src/activities/grading/grade-submission.ts'
import { openSandbox } from '../../../src/activities/episode/open-sandbox.ts'
import { loadRecipe } from '../../../src/adapters/recipes/load-recipe.ts'
import type { Disposition, EpisodeRecord } from '../../../src/contracts/episodes.types.ts'
import { isLonghaulError } from '../../../src/contracts/errors.ts'
import { FAILURE_CODES, type FailureCode } from '../../../src/contracts/failure-codes.ts'
import { episodeId, episodeKeys } from '../../../src/contracts/keys.ts'
import type { EpisodeInput } from '../../../src/contracts/workflows.types.ts'
import { answerToFailure, judgeLosses } from '../../../src/domain/failure-answers.ts'
import { chatml } from '../../../src/scaffold/render.ts'
import { scaffoldProfile } from '../../../src/scaffold/profiles.ts'
import { type AttackWorld, recipeText, scriptedPolicy } from './world.ts'

const never = new AbortController().signal

export interface PlayedOut {
  record: EpisodeRecord
  /** The failure of each lost sandbox. */
  losses: FailureCode[]
}

/**
 * Plays a scripted policy as the episode's workflow does: replaces a lost sandbox by the rules, replays its turns, and records an
 * episode that cannot be played or graded. Engine, store and grading are real.
 */
export async function playOut(
  world: AttackWorld,
  { index, commands }: { index: number; commands: readonly string[] },
): Promise<PlayedOut> {
  const { store, run, task } = world
  const input: EpisodeInput = {
    run,
    stage: 'eval-way-out',
    iteration: 0,
    policy: 'v000000-script',
    suite: 'suite',
    taskId: task.taskId,
    index,
  }
  const losses: FailureCode[] = []
  let outcome: 'played' | Disposition | null = null
  for (let placement = 1; outcome === null; placement += 1) {
    try {
      await playOnce(world, input, placement, commands)
      outcome = 'played'
    } catch (error) {
      if (!isLonghaulError(error)) throw error
      losses.push(error.code)
      const isLoss = answerToFailure(error.code).kind === 're-place' || error.code === 'Sandbox.Diverged'
      const answer = isLoss ? judgeLosses(losses) : 'infra'
      if (answer !== 'place-again') outcome = answer === 'infra' ? 'infra' : 'agent-gave-up'
    }
  }
  const failure = losses.at(-1) ?? null
  if (outcome !== 'played') await recordUngraded(store, { ...input, disposition: outcome, failure })
  const record = await store.readRecord<EpisodeRecord>(episodeKeys.result(episodeId(input)))
  if (record === null) throw new Error(`no result of ${episodeId(input)}`)
  return { record, losses }
}

async function playOnce(
  { store, host, task }: AttackWorld,
  input: EpisodeInput,
  placement: number,
  commands: readonly string[],
): Promise<void> {
  const { recipe } = await loadRecipe({ name: 'attack', text: recipeText({ commandTimeoutS: 2, diskGiB: 1 }) })
  const tasks = async () => task
  const ensureImage = async () => undefined
  const owner = { owner: 'attack', ownerRun: 'attack' }
  const opening = { store, sandbox: host, recipe, tasks, ensureImage, leaseMs: 60_000, hostId: 'test-host' }
  const sandbox = await openSandbox(opening, { ...input, placement, ...owner }, never)
  const episode = episodeId(input)
  let disposition: Disposition
  let patch: Awaited<ReturnType<typeof store.put>>
  try {
    const turns = await readTurns(store, episode)
    const deps: AdvanceDependencies = {
      store,
      sandbox: host,
      sampler: createTokenSampler({
        policy: scriptedPolicy([...commands.slice(turns.length), 'submit']),
        stopTokenIds: async () => [0],
      }),
      resolve: async ({ scaffold }) => ({ task, profile: scaffoldProfile(scaffold), format: chatml }),
      seedOf: () => 1,
      now: Date.now,
      stopwatch: () => performance.now(),
      renewEveryMs: 60_000,
    }
    const scope = { signal: never, attempt: 1, order: 1, owner, startedMs: 0, failing: null, beat: () => undefined }
    const progress = await advanceEpisode(deps, { ...input, sandbox, step: 1, placement }, scope)
    disposition = progress.disposition ?? 'turn-limit'
    const after = lastRunBefore(await readTurns(store, episode), Number.POSITIVE_INFINITY)
    const captured = await host.capture(sandbox, { mode: 'all', after }, never)
    patch = await store.put(episodeKeys.patch(episode), captured.patch)
  } finally {
    await host.close(sandbox)
  }
  await gradeToEnd({ store, sandbox: host, ensureImage, recipe, tasks, hostId: 'attacks' }, (attempt) => ({
    ...input,
    disposition,
    patch,
    ...owner,
    ...attempt,
  }))
}

/** Grades in up to five attempts, like the activity. */
async function gradeToEnd(
  deps: Parameters<typeof gradeSubmission>[0],
  inputOf: (attempt: { attempt: number; isLastAttempt: boolean }) => Parameters<typeof gradeSubmission>[1],
): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await gradeSubmission(deps, inputOf({ attempt, isLastAttempt: attempt === 5 }), never)
      return
    } catch (error) {
      if (attempt === 5 || !isLonghaulError(error) || !FAILURE_CODES[error.code].retryable) throw error
    }
  }
}
