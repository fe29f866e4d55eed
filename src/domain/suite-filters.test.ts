import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isLonghaulError } from '../contracts/errors.ts'
import type { SuiteFilter, TaskEvidence } from '../contracts/suites.types.ts'
import { paperFilters, readFilter, showFilter } from './filter-words.ts'
import { hiddenNames } from './hidden-names.ts'
import { instant } from './instant.ts'
import { applyFilters, changedLines, type FilterableTask } from './suite-filters.ts'

const PATCH = `diff --git a/m.py b/m.py
--- a/m.py
+++ b/m.py
@@ -1,3 +1,3 @@
 old_name = 1
--- a comment of SQL
+++counter
+def new_name(): pass
 end
`

function task(
  taskId: string,
  more: Partial<FilterableTask['task']> = {},
  meta: FilterableTask['meta'] = null,
): FilterableTask {
  const base = { taskId, createdAt: '2025-05-01T00:00:00Z', goldPatch: PATCH, failToPass: ['a'], passToPass: ['b'] }
  return { task: { ...base, ...more }, meta }
}

function keptBy(filter: SuiteFilter, tasks: FilterableTask[], evidence: TaskEvidence[] = []) {
  const { kept, counts } = applyFilters(tasks, [filter], new Map(evidence.map((line) => [line.instance_id, line])))
  const [count] = counts
  return { ids: kept.map(({ task }) => task.taskId), dropped: count?.dropped, lacking: count?.lacking }
}

test('a cut-off reads the time of creation: its first day belongs to it, its last does not', () => {
  const tasks = ['2025-04-30T23:59:59Z', '2025-05-01', '2025-05-31 23:59:59', '2025-06-01T00:00:00Z', null].map(
    (createdAt, index) => task(String(index), { createdAt }),
  )
  const filter = { kind: 'created' as const, from: '2025-05-01', before: '2025-06-01' }
  assert.deepEqual(keptBy(filter, tasks), { ids: ['1', '2'], dropped: 2, lacking: 1 })
})

test('lines of a patch are those of its hunks, also where they look like file names', () => {
  assert.equal(changedLines(PATCH), 3)
  assert.deepEqual(keptBy({ kind: 'max-lines', max: 2 }, [task('a')]).ids, [])
  assert.deepEqual(keptBy({ kind: 'max-lines', max: 3 }, [task('a')]).ids, ['a'])
})

test('files are counted by the row where it counts them, else in the patch', () => {
  const tasks = [task('patch'), task('row', {}, { num_modified_files: 8 })]
  assert.deepEqual(keptBy({ kind: 'max-files', max: 7 }, tasks).ids, ['patch'])
})

test('any quality score of the given value drops a task, none at all is lacking', () => {
  const scores = (issue: number, tests: number) => ({ llm_score: { issue_text_score: issue, test_score: tests } })
  const tasks = [task('good', {}, scores(0, -1)), task('bad', {}, scores(0, 3)), task('none', {}, { llm_score: null })]
  assert.deepEqual(keptBy({ kind: 'llm-score', drop: 3 }, tasks), { ids: ['good'], dropped: 1, lacking: 1 })
})

test('a task whose tests miss a name that only the gold patch brings is dropped', () => {
  const missing = (name: string) => `E   ImportError: cannot import name '${name}' from 'm' (m.py)`
  assert.deepEqual(hiddenNames({ log: missing('new_name'), goldPatch: PATCH }), ['new_name'])
  assert.deepEqual(hiddenNames({ log: missing('old_name'), goldPatch: PATCH }), [])
  assert.deepEqual(hiddenNames({ log: missing('elsewhere'), goldPatch: PATCH }), [])
  const attribute = "AttributeError: 'Thing' object has no attribute 'new_name'"
  const evidence = [
    { instance_id: 'hidden', emptyLog: attribute },
    { instance_id: 'fair', emptyLog: 'E   assert 1 == 2' },
  ]
  const found = keptBy({ kind: 'hidden-names' }, [task('hidden'), task('fair'), task('unknown')], evidence)
  assert.deepEqual(found, { ids: ['fair'], dropped: 1, lacking: 1 })
})

test('a task is deterministic when every listed test agreed in enough runs', () => {
  const runs = (...last: Record<string, string>[]) => [{ a: 'PASSED', b: 'PASSED', x: 'FAILED' }, ...last]
  const evidence = [
    { instance_id: 'steady', goldRuns: runs({ a: 'PASSED', b: 'PASSED', x: 'PASSED' }) },
    { instance_id: 'flaky', goldRuns: runs({ a: 'PASSED', b: 'FAILED' }) },
    { instance_id: 'gone', goldRuns: runs({ a: 'PASSED' }) },
    { instance_id: 'few', goldRuns: runs() },
  ]
  const tasks = evidence.map(({ instance_id: id }) => task(id))
  assert.deepEqual(keptBy({ kind: 'deterministic', trials: 2 }, tasks, evidence), {
    ids: ['steady'],
    dropped: 2,
    lacking: 1,
  })
})

test('each filter sees and counts what those before it left', () => {
  const tasks = [task('a'), task('b', { createdAt: null }), task('c', {}, { num_modified_files: 9 })]
  const filters = ['created>=2025-01-01', 'files<=7', 'lines<=2'].map(readFilter)
  const { counts } = applyFilters(tasks, filters)
  assert.deepEqual(
    counts.map(({ kept, dropped, lacking }) => [kept, dropped, lacking]),
    [
      [2, 0, 1],
      [1, 1, 0],
      [0, 1, 0],
    ],
  )
})

test('filters are written as they are read; anything else is refused', () => {
  const paper = ['hidden-names', 'files<=7', 'lines<=499', 'llm-score!=3', 'deterministic>=50']
  assert.deepEqual(paperFilters().map(showFilter), paper)
  for (const words of [...paper, 'created>=2025-01-01', 'created<2025-01-01T10:00:00+02:00']) {
    assert.equal(showFilter(readFilter(words)), words)
  }
  for (const words of [
    'files<7',
    'files<=0',
    'created<=2025-01-01',
    'created<soon',
    'hidden-names<=2',
    '',
    'size>=3',
  ]) {
    assert.throws(
      () => readFilter(words),
      (error) => isLonghaulError(error) && error.code === 'Config.Invalid',
    )
  }
})

test('a date without zone is UTC, one that is none is null', () => {
  assert.equal(instant('2025-05-01 10:00:00'), Date.UTC(2025, 4, 1, 10))
  assert.equal(instant('2025-05-01T10:00:00.123456+0200'), Date.UTC(2025, 4, 1, 8, 0, 0, 123))
  assert.equal(instant('2025-13-01'), null)
  assert.equal(instant('May 2025'), null)
})
