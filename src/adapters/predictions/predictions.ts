import { extname } from 'node:path'
import { LonghaulError } from '../../contracts/errors.ts'
import type { Prediction, PredictionFormat } from '../../contracts/grading.types.ts'
import { readInputFile } from '../../platform/input-file.ts'

export interface ReadPredictions {
  format: PredictionFormat
  /** One per task id. If an id occurs several times, its last prediction takes the position of its first. */
  predictions: Prediction[]
  duplicates: string[]
}

interface Entry {
  value: Record<string, unknown>
  /** `line 3`, `item 3`, `entry "key"`. */
  place: string
}

/**
 * Reads predictions in every format that a harness reads: `.json` with a list, or with an object whose values count (mini-swe-agent's
 * `preds.json`), `.jsonl`, and SWE-rebench-V2's list of `instance_id` and `patch`.
 * @param model for V2's entries, which name no model
 * @throws LonghaulError `Config.NotFound`, `Config.Invalid` with file, place and what to change
 */
export async function readPredictions({
  path,
  model = 'unnamed',
}: {
  path: string
  model?: string
}): Promise<ReadPredictions> {
  const entries = splitEntries(path, await readInputFile({ path, what: 'a file of predictions' }))
  if (entries.length === 0) throw invalid(path, 'whole file', 'Expected at least one prediction, got none')
  const isV2 = entries.every(({ value }) => !('model_patch' in value) && !('model_name_or_path' in value))
  const byId = new Map<string, Prediction>()
  const duplicates = new Set<string>()
  for (const entry of entries) {
    const prediction = isV2 ? fromV2(path, entry, model) : fromSwebench(path, entry)
    if (byId.has(prediction.taskId)) duplicates.add(prediction.taskId)
    byId.set(prediction.taskId, prediction)
  }
  return {
    format: isV2 ? 'rebench-v2' : 'swebench',
    predictions: [...byId.values()],
    duplicates: [...duplicates],
  }
}

function splitEntries(path: string, text: string): Entry[] {
  const kind = extname(path)
  if (kind === '.jsonl') {
    return text.split('\n').flatMap((line, index) => {
      const place = `line ${index + 1}`
      return line.trim() === '' ? [] : [toEntry(path, place, parse(path, place, line))]
    })
  }
  if (kind !== '.json') {
    throw invalid(path, 'its name', `Expected predictions in a file .json or .jsonl, or the word gold, got ${path}`)
  }
  const root = parse(path, 'whole file', text)
  if (Array.isArray(root)) return root.map((value, index) => toEntry(path, `item ${index + 1}`, value))
  if (typeof root === 'object' && root !== null) {
    return Object.entries(root).map(([key, value]) => toEntry(path, `entry ${JSON.stringify(key)}`, value))
  }
  throw invalid(path, 'whole file', 'Expected a list of predictions, or an object whose values are predictions')
}

function toEntry(path: string, place: string, value: unknown): Entry {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return { value: value as Record<string, unknown>, place }
  }
  throw invalid(path, place, `Expected a prediction to be an object, got ${JSON.stringify(value)?.slice(0, 60)}`)
}

function fromSwebench(path: string, { value, place }: Entry): Prediction {
  const taskId = idOf(path, { value, place })
  const model = value['model_name_or_path']
  if (typeof model !== 'string' || model === '') {
    throw invalid(path, place, 'Expected model_name_or_path with the name of a model: log folders are named after it')
  }
  if (!('model_patch' in value)) {
    throw invalid(path, place, 'Expected model_patch; say null or "" where there is no patch')
  }
  return { taskId, model, patch: textOf(path, place, 'model_patch', value['model_patch']) }
}

/** V2's own script uses the gold patch if a patch is missing, which would grade the data set and not a model. */
function fromV2(path: string, { value, place }: Entry, model: string): Prediction {
  const taskId = idOf(path, { value, place })
  if (!('patch' in value)) {
    throw invalid(
      path,
      place,
      'Expected model_patch with model_name_or_path, or patch as SWE-rebench-V2 has it; say "" where there is no patch, the gold patch is never taken instead',
    )
  }
  return { taskId, model, patch: textOf(path, place, 'patch', value['patch']) }
}

function idOf(path: string, { value, place }: Entry): string {
  const id = value['instance_id']
  if (typeof id === 'string' && id !== '') return id
  throw invalid(path, place, 'Expected instance_id with the id of a task')
}

function textOf(path: string, place: string, key: string, value: unknown): string {
  if (value === null) return ''
  if (typeof value === 'string') return value
  throw invalid(path, place, `Expected ${key} to be text or null, got ${JSON.stringify(value)?.slice(0, 60)}`)
}

function parse(path: string, place: string, text: string): unknown {
  try {
    return parsePythonJson(text)
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw invalid(path, place, `Expected JSON, got ${why}`, cause)
  }
}

function invalid(file: string, place: string, message: string, cause?: unknown): LonghaulError {
  return new LonghaulError({ code: 'Config.Invalid', message, details: { file, place }, cause })
}

/** Layouts of a file of predictions. */
export const PREDICTION_LAYOUTS = ['json', 'jsonl', 'preds', 'rebench-v2'] as const
export type PredictionLayout = (typeof PREDICTION_LAYOUTS)[number]

/**
 * Writes a file that the official harnesses read: `json` is a list, `jsonl` has one object per line, `preds` is the object of
 * mini-swe-agent, `rebench-v2` is a list of ids and patches. Non-ASCII characters are not escaped, because all harnesses read UTF-8.
 */
export function writePredictions(predictions: readonly Prediction[], layout: PredictionLayout): string {
  const swebench = predictions.map(({ taskId, model, patch }) => ({
    model_name_or_path: model,
    instance_id: taskId,
    model_patch: patch,
  }))
  switch (layout) {
    case 'json':
      return `${JSON.stringify(swebench, null, 2)}\n`
    case 'jsonl':
      return swebench.map((one) => `${JSON.stringify(one)}\n`).join('')
    case 'preds':
      return `${JSON.stringify(Object.fromEntries(swebench.map((one) => [one.instance_id, one])), null, 2)}\n`
    case 'rebench-v2':
      return `${JSON.stringify(
        predictions.map(({ taskId, patch }) => ({ instance_id: taskId, patch })),
        null,
        2,
      )}\n`
  }
}

const WORDS = /-?\b(?:NaN|Infinity)\b/g

/** Parses JSON as Python does: Python writes NaN and Infinity, which JSON lacks. The fields that hold them are not read here. */
function parsePythonJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch (error) {
    const without = withoutWords(text)
    if (without === text) throw error
    return JSON.parse(without) as unknown
  }
}

/** Strings are skipped one by one: an expression that matches them overflows its stack on a patch of many megabytes. */
function withoutWords(text: string): string {
  const parts: string[] = []
  let at = 0
  while (at < text.length) {
    const begin = text.indexOf('"', at)
    const end = begin < 0 ? text.length : endOfString(text, begin)
    parts.push(text.slice(at, begin < 0 ? text.length : begin).replace(WORDS, 'null'))
    if (begin >= 0) parts.push(text.slice(begin, end))
    at = end
  }
  return parts.join('')
}

/** One past the closing quote of the string that begins there. */
function endOfString(text: string, begin: number): number {
  for (let quote = text.indexOf('"', begin + 1); quote >= 0; quote = text.indexOf('"', quote + 1)) {
    let escapes = 0
    while (text[quote - 1 - escapes] === '\\') escapes++
    if (escapes % 2 === 0) return quote + 1
  }
  return text.length
}
