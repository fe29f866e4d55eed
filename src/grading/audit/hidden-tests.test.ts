import assert from 'node:assert/strict'
import { matchesGlob } from 'node:path'
import { test } from 'node:test'
import { readPatchFiles } from '../patch-files.ts'
import { findAdditions, findCollision, findLeftOut, findStartupHook, hiddenFiles, treeLimits } from './hidden-tests.ts'

const added = (path: string, mode = '100644'): string =>
  `diff --git a/${path} b/${path}\nnew file mode ${mode}\n--- /dev/null\n+++ b/${path}\n@@ -0,0 +1 @@\n+x\n`
const changed = (path: string): string =>
  `diff --git a/${path} b/${path}\n--- a/${path}\n+++ b/${path}\n@@ -1 +1 @@\n-x\n+y\n`
const deleted = (path: string): string =>
  `diff --git a/${path} b/${path}\ndeleted file mode 100644\n--- a/${path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n`
const collision = (patch: string, testPatch: string): string | null =>
  findCollision(readPatchFiles(Buffer.from(patch)), hiddenFiles(testPatch))

const HIDDEN = added('tests/test_new.py') + changed('tests/test_old.py') + changed('tests/test_\u0130.py')

for (const [what, patch] of [
  ['the same new file', added('tests/test_new.py')],
  ['a name that differs by case', added('tests/TEST_new.py')],
  ['a name that differs by case from a changed one', added('Tests/test_old.py')],
  ['a file in the place of the folder', added('tests')],
  ['a folder in the place of the file', added('tests/test_new.py/a.py')],
  ['a link in the place of a test', added('tests/test_old.py', '120000')],
  ['a repository in the place of a test', added('tests/test_old.py', '160000')],
  ['a long s instead of an ordinary one', added('tests/te\u017Ft_old.py')],
  ['a small letter with a combining dot', added('tests/test_i\u0307.py')],
] as const) {
  test(`${what} collides with the hidden tests`, () => assert.notEqual(collision(patch, HIDDEN), null))
}

for (const [what, patch] of [
  ['a test that was there', changed('tests/test_old.py')],
  ['a deleted test', deleted('tests/test_old.py')],
  ['a deleted file at the place of a new test', deleted('tests/test_new.py')],
  ['a deleted file whose name differs by case', deleted('tests/Test_Old.py')],
  ['tests of its own beside them', added('tests/test_mine.py')],
  ['a name that only begins alike', added('tests/test_new.pyi')],
] as const) {
  test(`${what} does not collide, because it is restored or left out`, () =>
    assert.equal(collision(patch, HIDDEN), null))
}

test('finds files that load themselves, unless the reference solution has them too', () => {
  const hook = (patch: string, gold = ''): string | null => findStartupHook(readPatchFiles(Buffer.from(patch)), gold)
  for (const path of ['x.pth', 'src/sitecustomize.py', 'usercustomize/__init__.py', 'sitecustomize.so']) {
    assert.equal(hook(added(path)), path)
    assert.equal(hook(added(path), added(path)), null)
  }
  const plugin = (path: string): string =>
    added(path).replace('+1 @@\n+x', '+1,2 @@\n+[pytest11]\n+checks = calc.checks')
  for (const path of ['a.egg-info/entry_points.txt', 'src/a.dist-info/entry_points.txt']) {
    assert.equal(hook(added(path)), null)
    assert.equal(hook(plugin(path)), path)
  }
  for (const path of [
    'entry_points.txt',
    'src/entry_points.txt',
    'a.egg-info/PKG-INFO',
    'a.egg-info.bak/entry_points.txt',
  ]) {
    assert.equal(hook(plugin(path)), null, path)
  }
  assert.equal(hook(deleted('x.pth')), null)
  assert.equal(hook(added('src/mysitecustomize.py')), null)
})

test('the tested tree leaves out the tests folder, and only the tests beside code', () => {
  const limits = (testPatch: string, goldPatch = '') => treeLimits({ hidden: hiddenFiles(testPatch), goldPatch })
  const deep = limits(added('pkg/tests/unit/test_a.py'))
  assert.ok(deep.includes('--exclude=pkg/tests/*'))
  assert.ok(deep.includes('--exclude=*/conftest.py') && deep.includes('--exclude=conftest.py'))
  assert.equal(deep.at(-1), '--include=*')
  const mixed = limits(changed('pkg/a_test.py'))
  assert.ok(mixed.includes('--exclude=pkg/a_test.py') && mixed.includes('--exclude=*/test_*.py'))
  assert.ok(!mixed.includes('--exclude=pkg/*'))
  const gold = limits(changed('tests/test_a.py'), changed('tests/support/thing.py'))
  assert.ok(gold.indexOf('--include=tests/support/thing.py') < gold.indexOf('--exclude=tests/*'))
  assert.ok(gold.includes('--include=tests/support/thing.py'))
  assert.ok(limits(added('tests/a[1]*.py')).includes(String.raw`--exclude=tests/a\[1\]\*.py`))
})

test('the tested tree leaves out helpers and compiled code unless the reference solution changes them', () => {
  const left = (path: string, goldPatch = ''): boolean => {
    const limits = treeLimits({ hidden: hiddenFiles(added('tests/test_a.py')), goldPatch })
    const word = limits.find((limit) =>
      matchesGlob(path.replaceAll('/', '|'), limit.slice(limit.indexOf('=') + 1).replaceAll('/', '|')),
    )
    return word?.startsWith('--exclude') ?? false
  }
  for (const path of [
    'calc/testing.py',
    'calc/testing/checks.py',
    'testutils/x.py',
    'a/b_test.py',
    'other/tests/data.json',
    'calc/fast.so',
    'calc/__pycache__/x.pyc',
    'calc/b_testing.py',
    'calc/testhelpers.py',
    'calc/testlib.py',
    'calc/testsupport.py',
    'calc/testcases.py',
    'test/data.json',
    'b_testing/data.json',
    'testutils/data.json',
    'testhelpers/data.json',
    'testlib/data.json',
    'testsupport/data.json',
    'calc/fast.pyd',
    'calc/x.pyo',
    'calc/fast.dll',
    'calc/fast.dylib',
  ]) {
    assert.ok(left(path), path)
    assert.ok(!left(path, changed(path)), path)
  }
  for (const path of ['calc/core.py', 'calc/contest.py', 'calc/latest.py', 'attestation/a.py', 'calc/testament.py']) {
    assert.ok(!left(path), path)
  }
})

test('the old name of a moved test is hidden too', () => {
  const moved =
    'diff --git a/tests/a.py b/tests/b.py\nsimilarity index 90%\nrename from tests/a.py\nrename to tests/b.py\n--- a/tests/a.py\n+++ b/tests/b.py\n@@ -1 +1 @@\n-x\n+y\n'
  assert.deepEqual(hiddenFiles(moved), [
    { path: 'tests/b.py', isNew: true, isLeft: true },
    { path: 'tests/a.py', isNew: false, isLeft: false },
  ])
})

test('states for each file what the test patch leaves, adds and removes', () => {
  const patch = added('tests/new.py') + changed('tests/kept.py') + deleted('tests/gone.py')
  assert.deepEqual(hiddenFiles(patch), [
    { path: 'tests/new.py', isNew: true, isLeft: true },
    { path: 'tests/kept.py', isNew: false, isLeft: true },
    { path: 'tests/gone.py', isNew: false, isLeft: false },
  ])
})

test('a row adds hidden files, test folders and the files of its solution to the limits of every row', () => {
  const own = (testPatch: string, goldPatch = ''): string[] => {
    const ofAll = new Set(treeLimits({ hidden: [], goldPatch: '' }))
    return treeLimits({ hidden: hiddenFiles(testPatch), goldPatch }).filter((limit) => !ofAll.has(limit))
  }
  assert.deepEqual(own(changed('pkg/a_test.py')), ['--exclude=pkg/a_test.py'])
  assert.deepEqual(own(changed('spec/a_test.py'), changed('pkg/core.py')), [
    '--exclude=spec/a_test.py',
    '--include=pkg/core.py',
    '--exclude=spec/*',
  ])
  // What both patches change is hidden.
  assert.deepEqual(own(changed('spec/a_test.py'), changed('spec/a_test.py')), own(changed('spec/a_test.py')))
})

test('the parts of a pattern must occur in order, beside each other and not overlapping', () => {
  const isLeftOut = (path: string, pattern: string): boolean =>
    findLeftOut(readPatchFiles(Buffer.from(added(path))), [`--exclude=${pattern}`, '--include=*']).length === 1
  for (const [path, pattern, expected] of [
    ['ab.py', 'ab*b.py', false],
    ['abb.py', 'ab*b.py', true],
    ['_testing/data.json', '*_testing/*', true],
    ['src/testutil.json', '*/testutil*/*', false],
    ['src/testutils/data.json', '*/testutil*/*', true],
    ['b/a', '*a*b*', false],
  ] as const) {
    assert.equal(isLeftOut(path, pattern), expected, `${path} by ${pattern}`)
    assert.equal(matchesGlob(path.replaceAll('/', '|'), pattern.replaceAll('/', '|')), expected, path)
  }
})

test('leaves out files that configure an interpreter or a runner in every folder, and no other file of their kind', () => {
  const limits = treeLimits({ hidden: hiddenFiles(added('tests/test_a.py')), goldPatch: '' })
  const left = (path: string): boolean => {
    const byGlob =
      limits
        .find((limit) =>
          matchesGlob(path.replaceAll('/', '|'), limit.slice(limit.indexOf('=') + 1).replaceAll('/', '|')),
        )
        ?.startsWith('--exclude') ?? false
    assert.equal(findLeftOut(readPatchFiles(Buffer.from(added(path))), limits).length === 1, byGlob, path)
    return byGlob
  }
  const names = ['conftest.py', 'pytest.ini', '.pytest.ini', 'pytest.toml', '.pytest.toml', 'tox.ini', 'setup.cfg']
  const more = ['pyproject.toml', '.gitattributes', 'a.pth', 'b.egg-link', 'sitecustomize.py', 'usercustomize.py']
  const folders = ['x.dist-info/METADATA', 'x.egg-info/PKG-INFO', 'sitecustomize/a.py', 'usercustomize/a.py']
  const tests = ['test_b.py', 'b_test.py', 'b_tests.py', 'tests.py', 'test.py']
  for (const path of [...names, ...more, ...folders, ...tests]) {
    assert.ok(left(path), path)
    assert.ok(left(`src/deep/${path}`), `src/deep/${path}`)
  }
  for (const path of ['setup.py', 'notes.ini', 'x.toml', 'setup.cfg.md', 'a.pth.txt', 'dist-info/x', 'src/b.py']) {
    assert.ok(!left(path), path)
  }
})

test('new modules named like tests may be part of a repair if the hidden tests cannot name them', () => {
  const hidden = added('tests/test_new.py').replace('+x', '+from lenient_test import check')
  const found = (patch: string): string[] =>
    findAdditions(readPatchFiles(Buffer.from(patch)), { hidden: hiddenFiles(hidden), testPatch: hidden })
  for (const path of ['ab_test.py', 'src/pkg/test_of_means.py', 'testutil_x.py']) {
    assert.deepEqual(found(added(path)), [path], path)
    assert.deepEqual(found(added(path, '100755')), [path], `a program at ${path}`)
    const withMode = changed(path).replace('--- a/', 'index 1111111..2222222 100644\n--- a/')
    assert.deepEqual(found(withMode), [], `changed ${path}`)
    assert.deepEqual(found(added(path, '120000')), [], `a link at ${path}`)
  }
  const others = ['tests/ab_test.py', 'pkg/tests/ab_test.py', 'pkg/testing/ab_test.py', 'testutils/ab_test.py']
  const named = [
    'lenient_test.py',
    'pkg/lenient_test.py',
    'a b_test.py',
    "a'b_test.py",
    '*_test.py',
    '-x_test.py',
    'ab_test.pyc',
    'a b/ab_test.py',
    'abc-ab_test.py',
  ]
  for (const path of [...others, ...named, 'conftest.py', 'sitecustomize.py', 'calc.py']) {
    assert.deepEqual(found(added(path)), [], path)
  }
})

test('a new module beside the hidden tests is never part of a repair', () => {
  const hidden = added('spec/test_new.py') + added('pkg/unit_tests/test_more.py')
  const found = (patch: string): string[] =>
    findAdditions(readPatchFiles(Buffer.from(patch)), { hidden: hiddenFiles(hidden), testPatch: hidden })
  const patch = added('spec/ab_test.py') + added('pkg/unit_tests/cd_test.py') + added('pkg/ef_test.py')
  assert.deepEqual(found(patch), ['pkg/ef_test.py'])
})

test('looks for at most twenty new modules', () => {
  const paths = Array.from({ length: 21 }, (_, at) => `pkg/means${at}_test.py`)
  const found = findAdditions(readPatchFiles(Buffer.from(paths.map((path) => added(path)).join(''))), {
    hidden: [],
    testPatch: '',
  })
  assert.deepEqual(found, paths.slice(0, 20))
})

test('recognizes a folder of tests by its whole name', () => {
  const folder = (path: string): boolean =>
    treeLimits({ hidden: hiddenFiles(changed(path)), goldPatch: '' }).some(
      (limit) => limit === `--exclude=${path.slice(0, path.lastIndexOf('/'))}/*`,
    )
  for (const name of ['test', 'tests', 'unit_tests', 'unittests', 'functional_test', 'integrationtest', '_tests']) {
    assert.ok(folder(`pkg/${name}/a.py`), name)
  }
  for (const name of ['testing', 'spec', 'specs', 'Tests']) assert.ok(folder(`pkg/${name}/a.py`), name)
  for (const name of ['contests', 'testsuite', 'mytesting', 'testings', 'inspec', 'spectrum', 'src']) {
    assert.ok(!folder(`pkg/${name}/a.py`), name)
  }
  // A file of that name is no folder.
  assert.ok(!treeLimits({ hidden: hiddenFiles(changed('pkg/tests')), goldPatch: '' }).includes('--exclude=pkg/tests/*'))
})
