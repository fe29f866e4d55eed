/** The listed tests of an episode: what the gate says of them before the patch, and its grading's log after it. */
import { parse } from '../adapters/parsing/parser-pool.ts'
import type { Task } from '../contracts/tasks.types.ts'
import { withoutTiming } from '../grading/test-names.ts'
import type { TestView } from './pages.types.ts'

/** Lists of ten thousand tests exist; a page needs no more. */
const MOST_TESTS = 20_000

/** Statuses by test as the log has them; null where no parser reads it. Read in a thread: a log is foreign text. */
export async function gradeStoredLog(task: Task, log: Uint8Array): Promise<ReadonlyMap<string, string> | null> {
  const { gradingProfile: profile, installConfig } = task
  try {
    const graded = await parse('gradeNamedLog', { profile, parser: installConfig.logParser, log, tests: null })
    return graded.kind === 'graded' ? graded.statuses : null
  } catch {
    return null
  }
}

export function gatedTests(
  { failToPass, passToPass }: Pick<Task, 'failToPass' | 'passToPass'>,
  statuses: ReadonlyMap<string, string> | null,
): TestView[] {
  const after = (name: string): string | null =>
    statuses === null ? null : (statuses.get(name) ?? statuses.get(withoutTiming(name)) ?? 'not in the log')
  const views = (names: readonly string[], list: TestView['list']): TestView[] =>
    names.map((name) => ({
      name,
      list,
      before: list === 'FAIL_TO_PASS' ? 'fails' : 'passes',
      after: after(name),
    }))
  return [...views(failToPass, 'FAIL_TO_PASS'), ...views(passToPass, 'PASS_TO_PASS')].slice(0, MOST_TESTS)
}
