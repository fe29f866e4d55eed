import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type AuditedTask, planAudit } from './plan-audit.ts'

const added = (path: string): string =>
  `diff --git a/${path} b/${path}\nnew file mode 100644\n--- /dev/null\n+++ b/${path}\n@@ -0,0 +1 @@\n+x\n`
const changed = (path: string): string =>
  `diff --git a/${path} b/${path}\n--- a/${path}\n+++ b/${path}\n@@ -1 +1 @@\n-x\n+y\n`

const TASK: AuditedTask = {
  taskId: 'calc__calc-1',
  repo: 'calc/calc',
  testPatch: [
    added('tests/test_new.py'),
    changed('tests/test_b.py'),
    changed('tests/data.txt'),
    changed('tests/test_a.py'),
  ].join(''),
  goldPatch: changed('calc.py'),
  failToPass: ['tests/test_new.py::test_one', 'tests/test_b.py::BTest::test_two[a::b]'],
  passToPass: [
    'tests/test_z.py::test_z',
    'other/test_c.py::test_c',
    'notes.txt::test_x',
    'test_without_path',
    '::test_y',
  ],
  gradingProfile: 'fork-4.0.3',
  installConfig: { install: null, testCmd: 'PYTHONPATH=lib python3 -m pytest -W error --tb=no x', logParser: 'x' },
}

const plan = (changes: Partial<AuditedTask> = {}, patch = changed('calc.py')) =>
  planAudit({ task: { ...TASK, ...changes }, patch: Buffer.from(patch), timeoutMs: 7 })
const withCommand = (testCmd: string): Partial<AuditedTask> => ({ installConfig: { ...TASK.installConfig, testCmd } })

describe('for pytest', () => {
  test('modules are the files with listed tests, first those of the test patch in order', () => {
    const { plan: found, voids, isSupported } = plan()
    assert.deepEqual(found.tests?.modules, [
      'tests/test_new.py',
      'tests/test_b.py',
      'other/test_c.py',
      'tests/test_z.py',
    ])
    assert.deepEqual([voids, isSupported], [[], true])
    assert.deepEqual(found.tests?.labels, [])
  })

  test('interpreter, options, roots and limits come from row and caller', () => {
    const { tests } = plan().plan
    assert.deepEqual(
      [tests?.runner, tests?.interpreter, tests?.arguments, tests?.roots, tests?.timeoutMs],
      ['pytest', 'python3', ['-W', 'error', '--tb=no'], ['lib'], 7],
    )
    assert.equal(tests?.testPatch, TASK.testPatch)
    assert.ok(tests?.limits.includes('--include=calc.py'))
    assert.ok(tests?.limits.includes('--exclude=tests/test_new.py'))
  })

  test('at most two hundred of the failing tests are in focus', () => {
    const failToPass = Array.from({ length: 201 }, (_, at) => `tests/test_new.py::test_${at}`)
    assert.deepEqual(plan({ failToPass }).plan.tests?.focus, failToPass.slice(0, 200))
    assert.deepEqual(plan().plan.tests?.focus, TASK.failToPass)
  })
})

test('unittest: modules are the Python files of the test patch, and labels come from the command', () => {
  const testPatch = `${TASK.testPatch}${changed('tests/page.html')}`
  const { tests } = plan({ ...withCommand('python -m unittest -v tests.test_a tests/test_b.py'), testPatch }).plan
  assert.deepEqual(tests?.modules, ['tests/test_new.py', 'tests/test_b.py', 'tests/test_a.py'])
  assert.deepEqual(tests?.labels, ['tests.test_a'])
})

describe('for Django', () => {
  const django = {
    repo: 'django/django',
    testPatch: [
      changed('tests/basic/tests.py'),
      changed('tests/basic/models.txt'),
      changed('tests/admin_views/tests.py'),
    ].join(''),
  }

  test("labels come from the row's own command, or else from the test patch", () => {
    const named = plan({ ...django, ...withCommand('./tests/runtests.py --settings=a basic.tests') }).plan.tests
    assert.deepEqual([named?.runner, named?.labels], ['django', ['basic.tests']])
    const bare = plan({ ...django, ...withCommand('./tests/runtests.py --settings=a') }).plan.tests
    assert.deepEqual(bare?.labels, ['basic.tests', 'admin_views.tests'])
  })

  test('modules are files here too', () => {
    const { tests } = plan({ ...django, ...withCommand('./tests/runtests.py') }).plan
    assert.deepEqual(tests?.modules, ['tests/basic/tests.py', 'tests/admin_views/tests.py'])
  })
})

describe('a patch that is void by its content', () => {
  test('tests are not run for a patch at a path of the hidden tests', () => {
    const found = plan({}, added('tests/test_new.py'))
    assert.deepEqual(found, {
      plan: { tests: null },
      voids: [{ reason: 'collides-with-tests', detail: 'tests/test_new.py' }],
      isSupported: true,
    })
  })

  test('names both a file that an interpreter loads by itself and a hidden path', () => {
    const found = plan({}, added('x.pth') + added('tests/test_new.py'))
    assert.deepEqual(found.voids, [
      { reason: 'collides-with-tests', detail: 'tests/test_new.py' },
      { reason: 'startup-hook', detail: 'x.pth' },
    ])
  })
})

test('a row whose runner has no audit plans no tests and says so', () => {
  assert.deepEqual(plan(withCommand('go test ./...')), { plan: { tests: null }, voids: [], isSupported: false })
})
