/** Predicted patches for tasks, in the formats that the official harnesses read. */
import type { ArtifactRef } from './artifacts.types.ts'

/** `swebench`: `instance_id`, `model_name_or_path`, `model_patch`; `rebench-v2`: `instance_id`, `patch`; `gold`: the data set's own. */
export type PredictionFormat = 'swebench' | 'rebench-v2' | 'gold'

export interface Prediction {
  /** The data set's instance id. */
  taskId: string
  model: string
  /** Exactly as given; `null` and `""` are the same to every harness: nothing to run. */
  patch: string
}

/** `not-unicode`: half a character, which no file can hold. `too-large`: more than any repair has. Neither is ever run. */
export type PatchFault = 'not-unicode' | 'too-large'

/** A prediction as it is stored: its patch lies beside it under its own hash. */
export interface StoredPrediction {
  taskId: string
  model: string
  /** Null for an empty patch, and for one with a fault. */
  patch: ArtifactRef | null
  fault: PatchFault | null
}

/** A predictions file, addressed by what it says: the same predictions in another format are the same set. */
export interface PredictionSet {
  schema: 'longhaul.predictions/1'
  hash: string
  format: PredictionFormat
  /** One for each id, in the order in which ids first appear. */
  predictions: StoredPrediction[]
  /** Ids given more than once: the last one counts, as everywhere. */
  duplicates: string[]
}
