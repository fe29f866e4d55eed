import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isLonghaulError } from '../../contracts/errors.ts'
import type { SuiteFilter, TaskEvidence } from '../../contracts/suites.types.ts'
import { paperFilters, readFilter, recipeFilters, showFilter } from './filter-words.ts'
import {
  type FilterableTask,
  applyFilters,
  changedLines,
  classifyTasks,
  hiddenNames,
  missedNameLines,
} from './suite-filters.ts'
import { instant } from '../instant.ts'

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

test('a creation filter includes its first day and excludes its last', () => {
  const tasks = ['2025-04-30T23:59:59Z', '2025-05-01', '2025-05-31 23:59:59', '2025-06-01T00:00:00Z', null].map(
    (createdAt, index) => task(String(index), { createdAt }),
  )
  const filter = { kind: 'created' as const, from: '2025-05-01', before: '2025-06-01' }
  assert.deepEqual(keptBy(filter, tasks), { ids: ['1', '2'], dropped: 2, lacking: 1 })
})

test('counts only the lines of hunks, also those that look like file names', () => {
  assert.equal(changedLines(PATCH), 3)
  assert.deepEqual(keptBy({ kind: 'max-lines', max: 2 }, [task('a')]).ids, [])
  assert.deepEqual(keptBy({ kind: 'max-lines', max: 3 }, [task('a')]).ids, ['a'])
})

test('takes the number of files from the row, or else from the patch', () => {
  const tasks = [task('patch'), task('row', {}, { num_modified_files: 8 })]
  assert.deepEqual(keptBy({ kind: 'max-files', max: 7 }, tasks).ids, ['patch'])
})

test('drops a task with any quality score of the given value, and reports one without scores as lacking', () => {
  const scores = (issue: number, tests: number) => ({ llm_score: { issue_text_score: issue, test_score: tests } })
  const tasks = [task('good', {}, scores(0, -1)), task('bad', {}, scores(0, 3)), task('none', {}, { llm_score: null })]
  assert.deepEqual(keptBy({ kind: 'llm-score', drop: 3 }, tasks), { ids: ['good'], dropped: 1, lacking: 1 })
})

test('drops a task whose tests miss a name that only the gold patch adds', () => {
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

test('each filter sees and counts what the earlier ones left', () => {
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

test('filters are printed as they are read, and anything else is refused', () => {
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

test('reads a filter with blanks around its parts and accepts only known limits', () => {
  assert.deepEqual(readFilter(' files<= 7 '), { kind: 'max-files', max: 7 })
  assert.deepEqual(readFilter('lines<=999999999'), { kind: 'max-lines', max: 999_999_999 })
  assert.deepEqual(readFilter('llm-score!=-1.5'), { kind: 'llm-score', drop: -1.5 })
  assert.deepEqual(readFilter('deterministic>=1'), { kind: 'deterministic', trials: 1 })
  assert.deepEqual(readFilter('created>=2025-01-01'), { kind: 'created', from: '2025-01-01', before: null })
  assert.deepEqual(readFilter('created<2025-01-01'), { kind: 'created', from: null, before: '2025-01-01' })
})

for (const words of [
  'lines<=1234567890',
  'lines<=7x',
  'lines<=x7',
  'lines<=0',
  'lines<=soon',
  'files<=-1',
  'deterministic>=',
  'deterministic>=0',
  'created>=soon',
  'created>2025-01-01',
  'llm-score!=',
  'llm-score!=3.',
  'llm-score!=x3',
  'llm-score!=3x',
  'llm-score=3',
  'hidden-names!=3',
  'hidden-names x',
  '!files<=7',
  'files 7',
  'files<=7\nlines<=3',
]) {
  test(`refuses ${JSON.stringify(words)} as a filter`, () => {
    assert.throws(() => readFilter(words), { code: 'Config.Invalid', details: { filter: words } })
  })
}

test('prints filters that cannot be written: a span of time, and a list of ids by its length', () => {
  const span = { kind: 'created', from: '2025-01-01', before: '2025-06-01' } as const
  assert.equal(showFilter(span), 'created>=2025-01-01 created<2025-06-01')
  assert.equal(showFilter({ ...span, before: null }), 'created>=2025-01-01')
  assert.equal(showFilter({ kind: 'ids', ids: ['a', 'b'] }), 'ids (2)')
})

test('splits the filters of a recipe into those of rows and those that need runs', () => {
  const all = { hiddenNames: 'drop', maxFiles: 7, maxLines: 499, dropLlmScore: 3, flakyTrials: 50 } as const
  const { fromRows, fromRuns } = recipeFilters(all)
  assert.deepEqual(fromRows.map(showFilter), ['files<=7', 'lines<=499', 'llm-score!=3'])
  assert.deepEqual(fromRuns.map(showFilter), ['hidden-names', 'deterministic>=50'])
  const none = { hiddenNames: 'keep', maxFiles: null, maxLines: null, dropLlmScore: null, flakyTrials: null } as const
  assert.deepEqual(recipeFilters(none), { fromRows: [], fromRuns: [] })
  assert.deepEqual(recipeFilters(undefined), { fromRows: [], fromRuns: [] })
})

test('a list of ids keeps only those tasks', () => {
  assert.deepEqual(keptBy({ kind: 'ids', ids: ['b', 'z'] }, [task('a'), task('b')]), {
    ids: ['b'],
    dropped: 1,
    lacking: 0,
  })
})

test('one end of a time span may be open', () => {
  const tasks = ['2025-04-30', '2025-05-01'].map((createdAt) => task(createdAt, { createdAt }))
  assert.deepEqual(keptBy({ kind: 'created', from: '2025-05-01', before: null }, tasks).ids, ['2025-05-01'])
  assert.deepEqual(keptBy({ kind: 'created', from: null, before: '2025-05-01' }, tasks).ids, ['2025-04-30'])
})

test('a limit that is no valid date keeps nothing', () => {
  assert.deepEqual(keptBy({ kind: 'created', from: '2025-13-01', before: null }, [task('a')]).ids, [])
  assert.deepEqual(keptBy({ kind: 'created', from: null, before: '2025-13-01' }, [task('a')]).ids, [])
})

test('finds the files of a patch by its headers, not by a line of code that looks like one', () => {
  const two = `${PATCH}diff --git a/n.py b/n.py\n@@ -0,0 +1 @@\n+x = "diff --git a/n.py b/n.py"\n`
  const tasks = [task('two', { goldPatch: two })]
  assert.deepEqual(keptBy({ kind: 'max-files', max: 2 }, tasks).ids, ['two'])
  assert.deepEqual(keptBy({ kind: 'max-files', max: 1 }, tasks).ids, [])
})

test('hunks without a length have one line, and a remark on a missing line break is no line', () => {
  const header = 'diff --git a/m.py b/m.py\n--- a/m.py\n+++ b/m.py\n'
  assert.equal(
    changedLines(`${header}@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n`),
    2,
  )
  // The second hunk and the second file are found behind the first.
  assert.equal(
    changedLines(`${header}@@ -1 +1,2 @@\n a\n+b\n@@ -9,2 +10 @@\n-c\n d\n${header}@@ -0,0 +1,2 @@\n+e\n+f\n`),
    4,
  )
  assert.equal(changedLines(`${header}@@ -10,12 +20,11 @@\n${' x\n'.repeat(11)}-gone\n-- not of the hunk\n`), 1)
  assert.equal(changedLines('text before\n@@ no hunk @@\n+nothing\n'), 0)
  assert.equal(changedLines(`x@@ -1 +1 @@\n-a\n+b\n`), 0)
})

test('ignores scores that are no numbers', () => {
  const tasks = [
    task('words', {}, { llm_score: { issue_text_score: 'good' } }),
    task('text', {}, { llm_score: 'three' }),
    task('mixed', {}, { llm_score: { issue_text_score: 3, test_score: 'good' } }),
    task('missing'),
  ]
  assert.deepEqual(keptBy({ kind: 'llm-score', drop: 3 }, tasks), { ids: [], dropped: 1, lacking: 3 })
})

test('of summarized runs one that differed drops the task, enough that agreed keep it, and too few decide nothing', () => {
  const evidence = [
    { instance_id: 'steady', gold: { runs: 2, flipping: [] } },
    { instance_id: 'flaky', gold: { runs: 1, flipping: ['a'] } },
    { instance_id: 'few', gold: { runs: 1, flipping: [] } },
    // Runs that were kept whole count more than their summary.
    { instance_id: 'both', gold: { runs: 9, flipping: [] }, goldRuns: [{ a: 'PASSED', b: 'PASSED' }] },
  ]
  const tasks = [...evidence.map(({ instance_id: id }) => task(id)), task('unknown')]
  assert.deepEqual(keptBy({ kind: 'deterministic', trials: 2 }, tasks, evidence), {
    ids: ['steady'],
    dropped: 1,
    lacking: 3,
  })
})

test('recognizes several kinds of missing names, dotted ones by the last part, and counts each once', () => {
  const patch = '+class Box: pass\n+def lid(): pass\n+import mod\n+UNUSED = 1\n'
  const log = [
    "AttributeError: type object 'Thing' has no attribute 'Box'",
    "AttributeError: module 'pkg' has no attribute 'lid'",
    "AttributeError: partially initialized module 'pkg' has no attribute 'lid'",
    "ModuleNotFoundError: No module named 'pkg.mod'",
  ].join('\n')
  assert.deepEqual(hiddenNames({ log, goldPatch: patch }).sort(), ['Box', 'lid', 'mod'])
  assert.deepEqual(hiddenNames({ log: 'AttributeError: Box', goldPatch: patch }), [])
})

test('recognizes what pytest and mocks say of a name that a test replaces and that is not there', () => {
  for (const said of [
    "<module 'shop' from '/testbed/shop.py'> has no attribute 'tax'",
    "'module' object at shop.bill has no attribute 'tax'",
    "<class 'shop.make.<locals>.Bill'> has no attribute 'tax'",
    "<module 'shop' from '/testbed/shop.py'> does not have the attribute 'tax'",
    "<shop.Bill object at 0x7f41bf4f4be0> does not have the attribute 'tax'",
  ]) {
    const log = `E   AttributeError: ${said}\n`
    assert.deepEqual(hiddenNames({ log, goldPatch: '+def tax(): pass\n' }), ['tax'], said)
    assert.deepEqual(missedNameLines(log), [`E   AttributeError: ${said}`])
  }
})

test('a name in a kept or removed line is not added by the patch, and file headers do not count', () => {
  const log = "AttributeError: 'M' object has no attribute 'lid'"
  assert.deepEqual(hiddenNames({ log, goldPatch: '+++ b/x.py\n--- a/lid.py\n+lid = 1\n' }), ['lid'])
  assert.deepEqual(hiddenNames({ log, goldPatch: ' lid()\n+lid = 1\n' }), [])
  assert.deepEqual(hiddenNames({ log, goldPatch: '-lid()\n+lid = 1\n' }), [])
  // Part of a longer word is another word.
  assert.deepEqual(hiddenNames({ log, goldPatch: '+lid = 1\n lids = 2\n' }), ['lid'])
  assert.deepEqual(hiddenNames({ log, goldPatch: '+eyelid = 1\n' }), [])
})

test('a date without a zone is UTC, and an invalid one is null', () => {
  assert.equal(instant('2025-05-01 10:00:00'), Date.UTC(2025, 4, 1, 10))
  assert.equal(instant('2025-05-01T10:00:00.123456+0200'), Date.UTC(2025, 4, 1, 8, 0, 0, 123))
  assert.equal(instant('2025-05-01'), Date.UTC(2025, 4, 1))
  assert.equal(instant('2025-05-01T10:30'), Date.UTC(2025, 4, 1, 10, 30))
  assert.equal(instant('2025-05-01T10:00:00Z'), Date.UTC(2025, 4, 1, 10))
  assert.equal(instant('2025-05-01 10:00:00 -03:30'), Date.UTC(2025, 4, 1, 13, 30))
  assert.equal(instant('2025-05-01 10:00:00.5'), Date.UTC(2025, 4, 1, 10, 0, 0, 500))
  for (const text of [
    '2025-13-01',
    'May 2025',
    '2025-05',
    '2025-05-01x',
    'x2025-05-01',
    '2025-05-01T10',
    '2025-05-01T10:00:00+2',
    '2025-05-01T10:00:00.',
    '2025-05-01_10:00',
    // `Date` would take them for a day of March, of May and of the next year.
    '2025-02-29',
    '2025-02-30T10:00:00Z',
    '2025-04-31 10:00:00',
    '2025-12-32',
    '',
  ]) {
    assert.equal(instant(text), null, text)
  }
})

test('one differing run of many drops a task', () => {
  const same = { a: 'PASSED', b: 'PASSED' }
  const evidence = [{ instance_id: 't', goldRuns: [same, same, { a: 'PASSED', b: 'FAILED' }] }]
  assert.deepEqual(keptBy({ kind: 'deterministic', trials: 3 }, [task('t')], evidence).ids, [])
  const missing = [{ instance_id: 't', goldRuns: [same, { a: 'PASSED' }, same] }]
  assert.deepEqual(keptBy({ kind: 'deterministic', trials: 3 }, [task('t')], missing).ids, [])
})

test('counts lines until both sides of a hunk are complete', () => {
  // Two added and one kept line: the header of the next file is no content, although it begins with + or -.
  const patch = '@@ -1,1 +1,3 @@\n+a+\n+b\n c\n+++ b/next\n--- a/next\n'
  assert.equal(changedLines(patch), 2)
  assert.equal(changedLines('@@ -1,3 +1,1 @@\n-a\n-b\n c\n--- a/next\n+++ b/next\n'), 2)
})

test('a hunk that ends with a removed line counts it', () => {
  assert.equal(changedLines('@@ -1,2 +1,2 @@\n+a\n b\n-c\n'), 2)
})

test('a task without any run lacks the proof of even one', () => {
  const { ids, lacking } = keptBy({ kind: 'deterministic', trials: 1 }, [task('t')], [])
  assert.deepEqual([ids, lacking], [[], 1])
})

test('a score may have several digits on both sides of its point', () => {
  assert.deepEqual(readFilter('llm-score!=12.25'), { kind: 'llm-score', drop: 12.25 })
})

test('a name that only the heading of a hunk contains is not added by the patch', () => {
  const log = "AttributeError: 'M' object has no attribute 'lid'"
  assert.deepEqual(hiddenNames({ log, goldPatch: '@@ -1 +1 @@ def lid():\n+x = 1\n' }), [])
})

test('classifies tasks by all filters that they fail, the largest class first, equal ones in a fixed order', () => {
  const filters = ['files<=7', 'llm-score!=3'].map(readFilter)
  const [files, score] = filters
  const scored = (value: number) => ({ llm_score: { issue_text_score: value } })
  const tasks = [
    task('both', {}, { ...scored(3), num_modified_files: 9 }),
    task('kept', {}, scored(0)),
    task('bad 1', {}, scored(3)),
    task('bad 2', {}, scored(3)),
    task('unscored'),
    task('large', {}, { ...scored(0), num_modified_files: 9 }),
  ]
  assert.deepEqual(classifyTasks(tasks, filters), [
    { dropped: [score], lacking: [], tasks: 2 },
    { dropped: [files, score], lacking: [], tasks: 1 },
    { dropped: [files], lacking: [], tasks: 1 },
    { dropped: [], lacking: [], tasks: 1 },
    { dropped: [], lacking: [score], tasks: 1 },
  ])
  assert.deepEqual(classifyTasks([], filters), [])
})
