import type { ReviewedSkip } from '../../reviewed-skips.ts'
import type { FileResult } from './file-result.ts'
import { reviewSkips, type SeenSkip } from './review-skips.ts'

export interface RunSummary {
  passed: number
  failed: number
  skipped: number
  /** Skips with their reasons, the slowest files and those with the most CPU time, each failure again, and `N passed, N failed[, N
   *  skipped]` as the last line. */
  text: string
  exitCode: 0 | 1
}

const SLOWEST = 15
/** Shown characters of each end of a failure; its full text is above, where its test ended. */
const SHOWN_CHARS = 400

/** Sums up a run. A skip that the list does not permit is a failure, and a run in which nothing passed has failed. */
export function summarise(results: readonly FileResult[], reviewed: readonly ReviewedSkip[]): RunSummary {
  const skips = reviewSkips(results, reviewed)
  const refused = skips.filter(({ review }) => review === null)
  const allowed = skips.filter(({ review }) => review !== null)
  const passed = sum(results.map((result) => result.passed))
  const failed = sum(results.map(({ failures }) => failures.length)) + sum(refused.map(({ count }) => count))
  const skipped = sum(allowed.map(({ count }) => count))
  const failures = [
    ...results.flatMap(({ file, failures: found }) =>
      found.map(({ test, error }) => `  ${file}: ${test}: ${inOneLine(error)}`),
    ),
    ...refused.map((skip) => `  ${describeSkip(skip)}: this skip is not in test/reviewed-skips.ts`),
  ]
  const last = `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`
  const parts = [
    section(
      'skipped, as reviewed',
      allowed.map((skip) => `  ${describeSkip(skip)}: ${skip.review?.why}`),
    ),
    section(`slowest ${Math.min(SLOWEST, results.length)} of ${results.length} files`, slowest(results)),
    section('most CPU', busiest(results)),
    section('failed', failures),
    last,
  ]
  return {
    passed,
    failed,
    skipped,
    text: parts.filter((part) => part !== '').join('\n'),
    exitCode: failed > 0 || passed === 0 ? 1 : 0,
  }
}

function describeSkip({ file, test, reason, count }: SeenSkip): string {
  return `${file}: ${test}${count > 1 ? ` (${count} times)` : ''} # ${reason}`
}

function slowest(results: readonly FileResult[]): string[] {
  return results
    .toSorted((a, b) => b.seconds - a.seconds)
    .slice(0, SLOWEST)
    .map(({ file, seconds }) => `${seconds.toFixed(1).padStart(7)} s  ${file}`)
}

/** Empty if the system does not report CPU time. */
function busiest(results: readonly FileResult[]): string[] {
  const known = results.flatMap(({ file, cpuSeconds }) => (cpuSeconds === undefined ? [] : [{ file, cpuSeconds }]))
  if (known.length < 2) return []
  const lines = known
    .toSorted((a, b) => b.cpuSeconds - a.cpuSeconds)
    .slice(0, SLOWEST)
    .map(({ file, cpuSeconds }) => `${cpuSeconds.toFixed(1).padStart(7)} s  ${file}`)
  return [
    ...lines,
    `${sum(known.map(({ cpuSeconds }) => cpuSeconds))
      .toFixed(1)
      .padStart(7)} s  all ${known.length}`,
  ]
}

function section(title: string, lines: readonly string[]): string {
  return lines.length === 0 ? '' : [title, ...lines].join('\n')
}

/** Both ends of an error: an assertion's comparison is below its first line, a Python traceback's cause is its last one. */
function inOneLine(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim()
  if (line.length <= 2 * SHOWN_CHARS) return line
  return `${line.slice(0, SHOWN_CHARS)} … ${line.slice(-SHOWN_CHARS)}`
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}
