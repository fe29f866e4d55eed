import type { GradeRunInput, GradeRunResult } from '../../../contracts/sandbox.types.ts'
import { shellQuote } from '../../../platform/run-command.ts'
import type { LonghaulError } from '../../../contracts/errors.ts'
import type { FileToPack } from '../engine/tar.ts'
import { HOSTS_FILE, textFile } from '../sandbox/runner-files.ts'
import { createGradeReader, endedByTests, type GradingAnswer } from './grade-output.ts'
import type { Grader } from './grading.ts'

export const DEFAULT_PATCH_PATH = '/tmp/patch.diff'

/** Runs the official steps of a harness on a patch in a fresh container or pod.
 *  @throws LonghaulError `Sandbox.ImageMissing`, `Sandbox.Stalled`, `Grading.Failed`, `Grading.Ended` */
export async function gradePatch(grader: Grader, input: GradeRunInput, signal: AbortSignal): Promise<GradeRunResult> {
  const { timeoutMs } = input
  const { answer, ...facts } = await grader<GradingAnswer>(
    {
      patch: input,
      script: 'grade.sh',
      files: gradeFiles(input),
      testTimeoutMs: timeoutMs,
      timeoutMs,
      read: createGradeReader,
      overdue: () => ({
        words: ['timed-out', '137'],
        log: Buffer.alloc(0),
        errors: Buffer.alloc(0),
        atMs: performance.now(),
      }),
    },
    signal,
  )
  return toResult(answer, { ...facts, timeoutMs })
}

function gradeFiles(input: GradeRunInput): FileToPack[] {
  const { applyCommands, resetCommand, lastCheck, files = {}, environment = {} } = input
  // Every word is quoted, so the shell interprets none of them.
  const command = (name: string, words: readonly string[]) => textFile(name, words.map(shellQuote).join(' '))
  const exports = Object.entries(environment).map(([name, value]) => `export ${name}=${shellQuote(value)}\n`)
  return [
    { name: '.lh/', mode: 0o700 },
    { name: '.lh/grade/', mode: 0o700 },
    { name: '.lh/apply/', mode: 0o700 },
    HOSTS_FILE,
    textFile('.lh/repository', input.repoDir),
    ...applyCommands.map((words, index) => command(`.lh/apply/${String(index).padStart(2, '0')}`, words)),
    ...(resetCommand === undefined ? [] : [command('.lh/reset', resetCommand)]),
    ...(lastCheck === undefined ? [] : [command('.lh/last-check', lastCheck)]),
    ...(input.output === 'apart' ? [textFile('.lh/apart', '')] : []),
    textFile('.lh/environment', exports.join('')),
    { name: (input.patchPath ?? DEFAULT_PATCH_PATH).slice(1), body: input.patch, mode: 0o644 },
    ...Object.entries(files).map(([path, body]) => ({ name: path.slice(1), body: Buffer.from(body), mode: 0o644 })),
    { name: 'eval.sh', body: Buffer.from(input.evalScript), mode: 0o755 },
  ]
}

/**
 * Maps the container's answer to a result. No time in it is trusted, because the patched code is root in the container.
 * @internal exported for its test
 */
export function toResult(
  { words, log: merged, errors, atMs }: GradingAnswer,
  {
    startMs,
    timeoutMs,
    ...facts
  }: Pick<GradeRunResult, 'imageDigest' | 'machine'> & { startMs: number; timeoutMs: number },
): GradeRunResult {
  const [kind, code = '', peak = ''] = words
  const unknown = (): LonghaulError =>
    endedByTests(`The grading container returned an unknown result: ${words.join(' ').slice(0, 200)}`)
  if (!isCount(code, 255)) throw unknown()
  const isPeak = isCount(peak, 2 * facts.machine.memoryMiB * 1024 * 1024)
  const common = {
    log: errors.length === 0 ? merged : Buffer.concat([merged, errors]),
    ...facts,
    wallMs: Math.round(atMs - startMs),
    ...(isPeak ? { peakMemoryBytes: Number(peak) } : {}),
  }
  if (kind === 'ran') return { kind, exitCode: Number(code), ...common }
  // A limit that has not passed on this clock has not passed in the container: the two clocks drift by less than a hundredth.
  if (kind === 'timed-out' && atMs - startMs >= 0.99 * timeoutMs) return { kind, ...common }
  if (kind === 'did-not-apply') return { kind: 'patch-did-not-apply', exitCode: Number(code), ...common }
  throw unknown()
}

function isCount(word: string, most: number): boolean {
  return /^\d{1,16}$/.test(word) && Number(word) <= most
}
