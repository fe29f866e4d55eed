import type { ReviewedSkip } from '../../reviewed-skips.ts'
import type { FileResult } from './file-result.ts'

export interface SeenSkip {
  file: string
  test: string
  reason: string
  /** Number of skips: a parametrised test counts each set of parameters. */
  count: number
  /** Null if no entry of the list permits the skip; the run then fails. */
  review: ReviewedSkip | null
}

/** Every skip of a run with its entry in the reviewed list. */
export function reviewSkips(results: readonly FileResult[], reviewed: readonly ReviewedSkip[]): SeenSkip[] {
  const seen = new Map<string, SeenSkip>()
  for (const { file, skips } of results) {
    for (const { test: title, reason } of skips) {
      const test = withoutParameters(file, title)
      const key = JSON.stringify([file, test, reason])
      const known = seen.get(key)
      if (known !== undefined) known.count += 1
      else seen.set(key, { file, test, reason, count: 1, review: findReview({ file, test, reason }, reviewed) })
    }
  }
  return [...seen.values()]
}

function findReview(
  { file, test, reason }: { file: string; test: string; reason: string },
  reviewed: readonly ReviewedSkip[],
): ReviewedSkip | null {
  const isOf = (entry: ReviewedSkip): boolean =>
    entry.file === file &&
    (entry.tests instanceof RegExp ? entry.tests.test(test) : entry.tests.includes(test)) &&
    entry.reason.test(reason)
  return reviewed.find(isOf) ?? null
}

/** The parameters of a Python test follow its name in brackets. */
function withoutParameters(file: string, title: string): string {
  return file.endsWith('.py') ? title.replace(/\[.*\]$/s, '') : title
}
