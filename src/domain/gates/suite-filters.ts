import { assertNever } from '../../contracts/errors.ts'
import type { FilterClass, FilterCount, SuiteFilter, TaskEvidence } from '../../contracts/suites.types.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { compareText } from '../hash-order.ts'
import { instant } from '../instant.ts'

/** A task together with the data that filters read. */
export interface FilterableTask {
  task: Pick<Task, 'taskId' | 'createdAt' | 'goldPatch' | 'failToPass' | 'passToPass'>
  /** The row's `meta`; null if it has none. */
  meta: Record<string, unknown> | null
}

export type Evidence = ReadonlyMap<string, TaskEvidence>

/** `lacking` means that the task lacks the data that the filter reads. Such a task is never kept. */
type Decision = 'keep' | 'drop' | 'lacking'

/** Applies filters in order, and counts the effect of each on what the earlier ones left. */
export function applyFilters<T extends FilterableTask>(
  tasks: readonly T[],
  filters: readonly SuiteFilter[],
  evidence: Evidence = new Map(),
): { kept: T[]; counts: FilterCount[] } {
  let kept = [...tasks]
  const counts = filters.map((filter): FilterCount => {
    const decided = kept.map((item) => ({ item, decision: decide(item, filter, evidence) }))
    const count = (which: Decision) => decided.filter(({ decision }) => decision === which).length
    kept = decided.flatMap(({ item, decision }) => (decision === 'keep' ? [item] : []))
    return { filter, kept: kept.length, dropped: count('drop'), lacking: count('lacking') }
  })
  return { kept, counts }
}

/**
 * Groups tasks by the set of filters that they fail, applying each filter to every task. The counts above cannot show this, because
 * each filter there only sees what earlier ones left. The class that fails no filter is kept, whatever the order of filters.
 * @returns the largest class first
 */
export function classifyTasks(
  tasks: readonly FilterableTask[],
  filters: readonly SuiteFilter[],
  evidence: Evidence = new Map(),
): FilterClass[] {
  const classes = new Map<string, FilterClass>()
  for (const task of tasks) {
    const decided = filters.map((filter) => ({ filter, decision: decide(task, filter, evidence) }))
    const ofKind = (kind: Decision): SuiteFilter[] =>
      decided.flatMap(({ filter, decision }) => (decision === kind ? [filter] : []))
    const key = decided.map(({ decision }) => decision).join()
    const known = classes.get(key) ?? { dropped: ofKind('drop'), lacking: ofKind('lacking'), tasks: 0 }
    classes.set(key, { ...known, tasks: known.tasks + 1 })
  }
  return [...classes]
    .sort(([left, a], [right, b]) => b.tasks - a.tasks || compareText(left, right))
    .map(([, found]) => found)
}

function decide({ task, meta }: FilterableTask, filter: SuiteFilter, evidence: Evidence): Decision {
  switch (filter.kind) {
    case 'created':
      return wasCreated(task.createdAt, filter)
    case 'ids':
      return keepIf(filter.ids.includes(task.taskId))
    case 'max-files':
      return keepIf(filesOf(task.goldPatch, meta) <= filter.max)
    case 'max-lines':
      return keepIf(changedLines(task.goldPatch) <= filter.max)
    case 'llm-score':
      return byScore(meta?.['llm_score'], filter.drop)
    case 'hidden-names': {
      const log = evidence.get(task.taskId)?.emptyLog
      return log === undefined ? 'lacking' : keepIf(hiddenNames({ log, goldPatch: task.goldPatch }).length === 0)
    }
    case 'deterministic':
      return agrees([...task.failToPass, ...task.passToPass], evidence.get(task.taskId), filter.trials)
    default:
      return assertNever(filter)
  }
}

function keepIf(isKept: boolean): Decision {
  return isKept ? 'keep' : 'drop'
}

function wasCreated(
  createdAt: string | null,
  { from, before }: { from: string | null; before: string | null },
): Decision {
  const at = createdAt === null ? null : instant(createdAt)
  if (at === null) return 'lacking'
  const isLate = from === null || at >= (instant(from) ?? Number.NaN)
  return keepIf(isLate && (before === null || at < (instant(before) ?? Number.NaN)))
}

function filesOf(patch: string, meta: FilterableTask['meta']): number {
  const counted = meta?.['num_modified_files']
  return typeof counted === 'number'
    ? counted
    : patch.split('\n').filter((line) => line.startsWith('diff --git ')).length
}

/** Counts added and removed lines. Hunk headers determine which lines are content, so that a removed `-- x` is not taken for a file
 *  name. */
export function changedLines(patch: string): number {
  let lines = 0
  let [source, target] = [0, 0]
  for (const line of patch.split('\n')) {
    const hunk = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/.exec(line)
    if (source <= 0 && target <= 0) {
      if (hunk !== null) [source, target] = [Number(hunk[1] ?? 1), Number(hunk[2] ?? 1)]
      continue
    }
    if (line.startsWith('\\')) continue
    if (!line.startsWith('+')) source -= 1
    if (!line.startsWith('-')) target -= 1
    if (line.startsWith('+') || line.startsWith('-')) lines += 1
  }
  return lines
}

function byScore(scores: unknown, drop: number): Decision {
  if (typeof scores !== 'object' || scores === null) return 'lacking'
  const values = Object.values(scores).filter((score) => typeof score === 'number')
  return values.length === 0 ? 'lacking' : keepIf(!values.includes(drop))
}

/** A test that is missing from one run counts as a disagreement. */
function agrees(tests: readonly string[], known: TaskEvidence | undefined, trials: number): Decision {
  const { goldRuns = [], gold } = known ?? {}
  if (goldRuns.length === 0 && gold !== undefined) {
    // One differing run is enough to decide; agreement needs all runs.
    if (gold.flipping.length > 0) return 'drop'
    return gold.runs < trials ? 'lacking' : 'keep'
  }
  const [first, ...others] = goldRuns
  if (first === undefined || others.length + 1 < trials) return 'lacking'
  return keepIf(tests.every((test) => others.every((run) => run[test] === first[test])))
}

const MISSING_NAMES = [
  /AttributeError: (?:type object |module |partially initialized module )?'[^'\n]*'(?: object(?: at [\w.]+)?)? has no attribute '([^'\n]+)'/g,
  // Of pytest's monkeypatch and of mocks, where a test replaces what is not there.
  /AttributeError: <[^<>\n]*(?:<[^<>\n]*>[^<>\n]*){0,8}> (?:has no attribute|does not have the attribute) '([^'\n]+)'/g,
  /ImportError: cannot import name '([^'\n]+)'/g,
  /ModuleNotFoundError: No module named '([^'\n]+)'/g,
]

/**
 * Returns names that tests missed and that only the gold patch introduces, which no agent could guess from the statement. A name that
 * also occurs in unchanged or removed lines of the patch, or nowhere in it, was not introduced by it.
 * @param log output of the tests without the gold patch
 */
export function hiddenNames({ log, goldPatch }: { log: string; goldPatch: string }): string[] {
  const missed = new Set(
    MISSING_NAMES.flatMap((pattern) => [...log.matchAll(pattern)].map((match) => match[1]?.split('.').at(-1) ?? '')),
  )
  const lines = goldPatch.split('\n')
  const added = wordsOf(lines.filter((line) => line.startsWith('+')))
  const known = wordsOf(lines.filter((line) => /^[ -](?!-- )/.test(line)))
  return [...missed].filter((name) => added.has(name) && !known.has(name))
}

/** Returns the distinct log lines that `hiddenNames` reads. Nothing else of the log must be stored. */
export function missedNameLines(log: string): string[] {
  const lines = log.split('\n').filter((line) => MISSING_NAMES.some((pattern) => line.search(pattern) >= 0))
  return [...new Set(lines)]
}

function wordsOf(lines: readonly string[]): Set<string> {
  return new Set(lines.join('\n').match(/[\p{L}\p{N}_]+/gu) ?? [])
}
