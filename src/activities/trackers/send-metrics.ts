import { log as activityLog } from '@temporalio/activity'
import { mlflowTracker } from '../../adapters/trackers/mlflow.ts'
import { tensorboardTracker } from '../../adapters/trackers/tensorboard.ts'
import { wandbTracker } from '../../adapters/trackers/wandb.ts'
import type { Tracker } from '../../adapters/trackers/tracker.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { assertNever, toLonghaulError } from '../../contracts/errors.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import { runKeys } from '../../contracts/keys.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { unlessAborted } from '../../platform/unless-aborted.ts'
import type { TrackedId, TrackedRun, TrackerOutcome, TrackerRecipe } from '../../contracts/trackers.types.ts'
import type { RecipeReader } from '../runtime/stored-records.ts'
import { readTrackedRun } from './read-tracked-run.ts'

/** Time that a sending may add to the activity that has just written a record: reading the run's records, and sending to all
 *  trackers concurrently. */
const SENDING_MS = 15_000

export interface TrackingWorld {
  store: ArtifactStore
  recipes: RecipeReader
  /** @default the process's own environment, which holds the variables that a recipe names */
  env?: NodeJS.ProcessEnv
  /** Logs one line for each tracker that was not reached. @default a warning of the activity */
  log?: (line: string) => void
  /** @default 15 seconds */
  limitMs?: number
}

/**
 * Sends what trackers lack of a run, directly after one of its records was written. It never throws and ends within its limit. The next
 * sending begins with what a tracker did not receive now.
 */
export type Tracking = (run: string, signal: AbortSignal) => Promise<void>

export function createTracking({
  store,
  recipes,
  env = process.env,
  log = (line) => activityLog.warn(line),
  limitMs = SENDING_MS,
}: TrackingWorld): Tracking {
  return async (run, signal) => {
    const late = AbortSignal.timeout(limitMs)
    const ending = AbortSignal.any([signal, late])
    const reason = (error: unknown): string =>
      late.aborted ? `not complete after ${limitMs / 1000} s` : toLonghaulError(error).message
    const say = (tracker: string, problem: string): void =>
      log(
        `Metrics of ${run} did not all reach ${tracker}: ${problem}. The run continues; its next record sends what is missing, and so does longhaul track ${run}`,
      )
    try {
      // Recipes that an older version stored have no trackers.
      const { trackers } = (await unlessAborted(recipes(run), ending)) as Partial<Recipe>
      if (trackers === undefined || trackers.length === 0) return
      const tracked = await unlessAborted(readTrackedRun(store, run, { mayWrite: true }), ending)
      const outcomes = await sendTo(trackers, tracked, { store, env, isDry: false, signal: ending, reason })
      for (const { tracker, problem } of outcomes) if (problem !== null) say(tracker, problem)
    } catch (error) {
      say('any tracker', reason(error))
    }
  }
}

export interface SendToOptions {
  store: ArtifactStore
  env: NodeJS.ProcessEnv
  isDry: boolean
  signal: AbortSignal
  /** @default the error's own message */
  reason?(error: unknown): string
}

/** Sends to all trackers concurrently; a failing one does not delay the others. */
export function sendTo(
  trackers: readonly TrackerRecipe[],
  run: TrackedRun,
  { store, env, isDry, signal, reason = (error) => toLonghaulError(error).message }: SendToOptions,
): Promise<TrackerOutcome[]> {
  return Promise.all(
    trackers.map(async (recipe): Promise<TrackerOutcome> => {
      const tracker = trackerOf(recipe, env)
      const outcome: TrackerOutcome = { tracker: tracker.name, points: run.points.length, sent: 0, problem: null }
      const onSent = (points: number): void => void (outcome.sent += points)
      try {
        const settleId = (id: string): Promise<string> => settle(store, { run: run.run, tracker: tracker.name, id })
        await unlessAborted(tracker.send(run, { isDry, signal, onSent, settleId }), signal)
        return outcome
      } catch (error) {
        return { ...outcome, problem: reason(error) }
      }
    }),
  )
}

async function settle(
  store: ArtifactStore,
  { run, tracker, id }: { run: string; tracker: string; id: string },
): Promise<string> {
  const key = runKeys.tracked(run, sha256Hex(tracker).slice(0, 16))
  return (await store.claimRecord<TrackedId>(key, { schema: 'longhaul.tracked/1', tracker, id })).record.id
}

function trackerOf(recipe: TrackerRecipe, env: NodeJS.ProcessEnv): Tracker {
  switch (recipe.kind) {
    case 'mlflow':
      return mlflowTracker(recipe, env)
    case 'tensorboard':
      return tensorboardTracker(recipe)
    case 'wandb':
      return wandbTracker(recipe, env)
    default:
      return assertNever(recipe)
  }
}
