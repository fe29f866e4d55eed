import { selectEvaluation } from '../../activities/evaluation/read-evaluation.ts'
import { readEvaluations } from '../../activities/evaluation/report-data.ts'
import { requireKnownRun, requireRunWithEpisodes } from '../../activities/run/run-names.ts'
import { openRecord } from '../../adapters/artifacts/store-rules.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { EvaluationRecord } from '../../contracts/evaluations.types.ts'
import { isRunName, runKeys } from '../../contracts/keys.ts'
import { readInputFile } from '../../platform/input-file.ts'

/**
 * `RUN:EVALUATION` such as `demo-2026-11-20-a:rft`; `RUN` for its last held-out evaluation, except intermediate ones; or `FILE.json`, a
 * copy of an evaluation record such as a baseline kept beside the code.
 * @throws LonghaulError `Config.NotFound` naming what exists, `Artifact.Corrupt` for an edited file
 */
export async function readEvaluationArgument(
  openStore: () => Promise<ArtifactStore>,
  text: string,
): Promise<EvaluationRecord> {
  if (text.endsWith('.json')) return readEvaluationFile(text)
  const { run, name } = splitEvaluationName(text)
  const store = await openStore()
  const evaluations = await readEvaluations(store, run)
  if (evaluations.length > 0) return selectEvaluation(evaluations, { run, name })
  if (isRunName(run)) await requireKnownRun(store, run)
  await requireRunWithEpisodes(store, run)
  throw new LonghaulError({
    code: 'Config.NotFound',
    message: `Expected RUN, RUN:EVALUATION or FILE.json, got ${JSON.stringify(text)}: no evaluation of such a run is in ${store.locate('runs')}; set LONGHAUL_ARTIFACTS to use another store`,
  })
}

/** True for `RUN` and `RUN:NAME`, a stage or an evaluation of the run. */
export function isRunPart(text: string): boolean {
  const parts = text.split(':')
  return parts.length <= 2 && parts.every(isRunName)
}

export function splitEvaluationName(text: string): { run: string; name?: string } {
  const [run = '', name] = text.split(':', 2)
  return name === undefined ? { run } : { run, name }
}

export async function readEvaluationFile(path: string): Promise<EvaluationRecord> {
  const text = await readInputFile({ path, what: 'an evaluation record' })
  if (!text.includes('"sha256":')) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected an evaluation record at ${path}, a copy of one in runs/RUN/evaluations of the artifact store: it has no sha256`,
    })
  }
  const record = openRecord<EvaluationRecord>(path, new TextEncoder().encode(text), runKeys.evaluation('file', 'file'))
  if (record.schema === 'longhaul.evaluation/2') return record
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected a record longhaul.evaluation/2 at ${path}, got ${JSON.stringify(record.schema)}`,
  })
}

/** `pass@1.lower>=0.35`: a bound of the interval, never the mean, so that luck cannot pass a gate. */
export interface Threshold {
  bound: 'lower' | 'upper'
  atLeast: number
}

export interface ScoredInterval {
  mean: number
  low: number
  high: number
  /** Where the bounds come from. */
  source: string
}

/** @throws LonghaulError `Config.Invalid` */
export function parseThreshold(text: string): Threshold {
  const found = /^pass@1\.(lower|upper)\s*>=\s*(0|1|0?\.\d+|1\.0+)$/.exec(text.trim())
  if (found === null) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected --threshold 'pass@1.lower>=0.35', a bound between 0 and 1, got ${JSON.stringify(text)}`,
    })
  }
  return { bound: found[1] as Threshold['bound'], atLeast: Number(found[2]) }
}

/** `verdict` is one line with the numbers and the rule. */
export function judgeThreshold(
  { bound, atLeast }: Threshold,
  { mean, low, high, source }: ScoredInterval,
): { met: boolean; verdict: string } {
  const value = bound === 'lower' ? low : high
  const met = value >= atLeast
  const verdict = `threshold ${met ? 'met' : 'missed'}: pass@1.${bound} ${showBeside(value, atLeast)} ${met ? '≥' : '<'} ${atLeast} (mean ${mean.toFixed(3)}, 95 % interval ${low.toFixed(3)} to ${high.toFixed(3)}, ${source})`
  return { met, verdict }
}

/** With three decimals, or as many as it takes to show on which side of the limit the value lies. */
function showBeside(value: number, limit: number): string {
  for (let digits = 3; digits < 16; digits++) {
    const shown = value.toFixed(digits)
    if (Number(shown) >= limit === value >= limit) return shown
  }
  return String(value)
}
