import { type ReadPredictions, readPredictions } from '../../adapters/predictions/predictions.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { predictionKeys } from '../../contracts/keys.ts'
import type { PatchFault, Prediction, PredictionSet, StoredPrediction } from '../../contracts/grading.types.ts'
import type { SuiteManifest } from '../../contracts/tasks.types.ts'
import { isSha256Hex, sha256Hex } from '../../platform/hash.ts'
import { MAX_PATCH_BYTES } from './grade-submission.ts'
import { createTaskReader, readOrThrow } from '../runtime/stored-records.ts'

export interface StorePredictionsInput {
  store: ArtifactStore
  /** A file or its parsed content, `gold`, or the hash of stored predictions. */
  predictions: string | ReadPredictions
  suite: SuiteManifest
  /** Model of SWE-rebench-V2's entries, which name none. */
  model?: string
}

/** Maximum number of ids that an error names. */
const NAMED = 5

/**
 * Stores predictions for a suite once, by their content.
 * @throws LonghaulError `Config.Invalid` for ids that the suite does not have, and for a malformed file
 */
export async function storePredictions(input: StorePredictionsInput): Promise<PredictionSet> {
  const { store, predictions, suite } = input
  if (typeof predictions === 'string' && isSha256Hex(predictions)) {
    const set = await readOrThrow<PredictionSet>(store, predictionKeys.set(predictions))
    refuseUnknown(set.predictions, suite)
    return set
  }
  const given = typeof predictions === 'string' ? await readGiven(predictions, input.model) : predictions
  const read = given === 'gold' ? await goldPredictions(store, suite) : given
  refuseUnknown(read.predictions, suite)
  const stored: StoredPrediction[] = []
  for (const prediction of read.predictions) stored.push(await storePatch(store, prediction))
  const content = { format: read.format, predictions: stored, duplicates: read.duplicates }
  const hash = sha256Hex(JSON.stringify(content))
  const set: PredictionSet = { schema: 'longhaul.predictions/1', hash, ...content }
  await store.putRecord(predictionKeys.set(hash), set)
  return set
}

/** Reads a file before any store is opened. @throws LonghaulError `Config.Invalid`, `Config.NotFound` */
export async function readGiven(predictions: string, model?: string): Promise<'gold' | ReadPredictions> {
  if (predictions === 'gold') return 'gold'
  return readPredictions({ path: predictions, ...(model === undefined ? {} : { model }) })
}

async function goldPredictions(store: ArtifactStore, suite: SuiteManifest): Promise<ReadPredictions> {
  const readTask = createTaskReader(store)
  const predictions: Prediction[] = []
  for (const taskId of suite.taskIds) {
    const { goldPatch } = await readTask({ suite: suite.hash, taskId })
    predictions.push({ taskId, model: 'gold', patch: goldPatch })
  }
  return { format: 'gold', predictions, duplicates: [] }
}

/** Refuses unknown ids, because a harness that skipped them would report a better rate over fewer tasks. */
function refuseUnknown(predictions: readonly { taskId: string }[], { name, taskIds }: SuiteManifest): void {
  const known = new Set(taskIds)
  const unknown = predictions.filter(({ taskId }) => !known.has(taskId)).map(({ taskId }) => taskId)
  if (unknown.length === 0) return
  const named = unknown.slice(0, NAMED).map((id) => JSON.stringify(id))
  const more = unknown.length > NAMED ? ` and ${unknown.length - NAMED} more` : ''
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected predictions for tasks of ${name}; it has no ${named.join(', ')}${more}. Remove them from the file, or name the suite that has them`,
    details: { unknown: unknown.length, tasks: taskIds.length },
  })
}

async function storePatch(store: ArtifactStore, { taskId, model, patch }: Prediction): Promise<StoredPrediction> {
  if (patch === '') return { taskId, model, patch: null, fault: null }
  const bytes = new TextEncoder().encode(patch)
  const fault = faultOf(patch, bytes)
  if (fault !== null) return { taskId, model, patch: null, fault }
  return { taskId, model, patch: await store.put(predictionKeys.patch(sha256Hex(bytes)), bytes), fault }
}

function faultOf(patch: string, bytes: Uint8Array): PatchFault | null {
  if (!patch.isWellFormed()) return 'not-unicode'
  return bytes.length > MAX_PATCH_BYTES ? 'too-large' : null
}
