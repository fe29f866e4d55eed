import { decodeSafetensors, type StoredTensor } from '../trainer-job/batch/safetensors.ts'

/** Positions with the trainer's log-probabilities of their tokens under the old and the new weights, at temperature 1. */
export interface Canary {
  rows: { ids: number[]; positions: CanaryPosition[] }[]
}

export interface CanaryPosition {
  /** Position within the row, ≥ 1. */
  index: number
  oldLogprob: number
  newLogprob: number
}

export interface CanaryFigures {
  /** Median of |served − new|. */
  medianDifference: number
  /** ⟨served − old, new − old⟩ / ‖new − old‖²: near 1 for the new weights, near 0 for stale ones. */
  projection: number
}

export type CanaryVerdict = CanaryFigures & {
  /**
   * `indistinguishable`: old and new weights differ by less than the engine's noise, so only version and checksum can tell. `partial`:
   * the answers lie between those of the old and the new weights.
   */
  kind: 'verified' | 'indistinguishable' | 'stale' | 'partial' | 'wrong'
}

/** Halfway between the old weights (0) and the new ones (1). */
const LEAST_PROJECTION = 0.5
/** Tolerance of the projection on the new weights besides noise, and the number of standard deviations of noise that is accepted. */
const PROJECTION_MARGIN = 0.1
const NOISE_DEVIATIONS = 3

export function judgeCanary({
  served,
  positions,
  tolerance,
}: {
  served: readonly number[]
  positions: readonly CanaryPosition[]
  tolerance: number
}): CanaryVerdict {
  const differences = positions.map(({ newLogprob }, at) => Math.abs((served[at] ?? Number.NaN) - newLogprob))
  const medianDifference = median(differences)
  const moved = positions.map(({ newLogprob, oldLogprob }) => newLogprob - oldLogprob)
  const movedSquare = moved.reduce((sum, step) => sum + step * step, 0)
  const along = positions.reduce(
    (sum, { oldLogprob }, at) => sum + ((served[at] ?? 0) - oldLogprob) * (moved[at] ?? 0),
    0,
  )
  const projection = movedSquare === 0 ? 0 : along / movedSquare
  // Written so that NaN counts as wrong too.
  const isClose = medianDifference <= tolerance
  const isTellable = Math.sqrt(movedSquare / Math.max(1, positions.length)) > tolerance
  if (!isTellable && isClose) return { kind: 'indistinguishable', medianDifference, projection }
  // Independent noise as large as the tolerance moves the projection by tolerance / ‖new − old‖.
  const margin = Math.min(LEAST_PROJECTION, PROJECTION_MARGIN + (NOISE_DEVIATIONS * tolerance) / Math.sqrt(movedSquare))
  const isNew = isTellable && isClose && Math.abs(projection - 1) < margin
  if (isNew) return { kind: 'verified', medianDifference, projection }
  const isOld = Math.abs(projection) < LEAST_PROJECTION && isTellable
  const isBetween = isTellable && isClose && projection < 1
  return { kind: isOld ? 'stale' : isBetween ? 'partial' : 'wrong', medianDifference, projection }
}

export interface WindowFigures extends CanaryFigures {
  /** Median of |with the rope − without it|, which is the error of a server that ignores the rope. */
  medianStep: number
}

/** Tolerated error, as a share of the step from the rope ignored to the rope applied. A slightly different factor or length, or a
 *  lossy engine, stays within it. */
const MOST_OF_STEP = 0.25

/**
 * Judges whether a server applies the rope, at positions that the model was not trained on. `old` holds the same weights without the
 * rope. Random tokens are unlikely, and an engine's rounding moves their log-probabilities more than those of a text, so the bound
 * grows with the difference to be detected.
 */
export function judgeWindow({
  served,
  positions,
  tolerance,
}: {
  served: readonly number[]
  positions: readonly CanaryPosition[]
  tolerance: number
}): WindowFigures & { kind: 'read' | 'ignored' | 'wrong' } {
  const { medianDifference, projection } = judgeCanary({ served, positions, tolerance })
  const medianStep = median(positions.map(({ oldLogprob, newLogprob }) => Math.abs(newLogprob - oldLogprob)))
  const figures = { medianDifference, projection, medianStep }
  // Written so that NaN counts as wrong too.
  const isClose = medianDifference <= Math.max(tolerance, MOST_OF_STEP * medianStep)
  if (isClose && (projection > LEAST_PROJECTION || medianStep <= tolerance)) return { kind: 'read', ...figures }
  return { kind: projection < LEAST_PROJECTION ? 'ignored' : 'wrong', ...figures }
}

/** Throws a plain `Error` if the file is not a canary. */
export function parseCanary(file: Uint8Array): Canary {
  const tensors = decodeSafetensors(file)
  const offsets = Array.from(new BigInt64Array(needed(tensors, 'row_offsets', 'I64')), Number)
  const ids = new Int32Array(needed(tensors, 'input_ids', 'I32'))
  const rows = offsets.slice(1).map((end, row): Canary['rows'][number] => ({
    ids: [...ids.subarray(offsets[row] ?? 0, end)],
    positions: [],
  }))
  const at = new Int32Array(needed(tensors, 'position_row', 'I32'))
  const index = new Int32Array(needed(tensors, 'position_index', 'I32'))
  const old = new Float32Array(needed(tensors, 'old_logprobs', 'F32'))
  const next = new Float32Array(needed(tensors, 'new_logprobs', 'F32'))
  for (let position = 0; position < at.length; position++) {
    const row = rows[at[position] ?? -1]
    const label = index[position] ?? 0
    if (row === undefined || label < 1 || label >= row.ids.length)
      throw new Error(`canary position ${position} lies outside`)
    row.positions.push({
      index: label,
      oldLogprob: old[position] ?? Number.NaN,
      newLogprob: next[position] ?? Number.NaN,
    })
  }
  return { rows }
}

function needed(tensors: Map<string, StoredTensor>, name: string, dtype: string): ArrayBuffer {
  const tensor = tensors.get(name)
  if (tensor === undefined || tensor.dtype !== dtype) throw new Error(`no tensor ${name} of type ${dtype}`)
  // The copy starts at offset 0, which is aligned for every element type.
  return new Uint8Array(tensor.bytes).buffer
}

function median(values: readonly number[]): number {
  if (values.some(Number.isNaN) || values.length === 0) return Number.NaN
  const sorted = [...values].sort((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? Number.NaN)) / 2
}
