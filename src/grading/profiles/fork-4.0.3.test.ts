import assert from 'node:assert/strict'
import { test } from 'node:test'
import { evalScript, testDirectives } from './fork-4.0.3.ts'

const newFile = (path: string): string =>
  `diff --git a/${path} b/${path}\nnew file mode 100644\nindex 0000000..1\n--- /dev/null\n+++ b/${path}\n@@ -0,0 +1 @@\n+x\n`
const changed = (path: string): string =>
  `diff --git a/${path} b/${path}\nindex 1..2 100644\n--- a/${path}\n+++ b/${path}\n@@ -1 +1 @@\n-x\n+y\n`

const task = (testPatch: string, install: string | null = null) => ({
  repo: 'o/r',
  baseCommit: 'abc123',
  testPatch,
  installConfig: { install, testCmd: 'pytest -rA', logParser: 'parse_log_pytest' },
})

test('a patch that only adds tests gives the whole script with a plain checkout of the commit', () => {
  const patch = newFile('tests/test_x.py')
  assert.equal(
    evalScript(task(patch)),
    `#!/bin/bash
set -uxo pipefail
source /opt/miniconda3/bin/activate
conda activate testbed
cd /testbed
git config --global --add safe.directory /testbed
cd /testbed
git status
git show
git -c core.fileMode=false diff abc123
source /opt/miniconda3/bin/activate
conda activate testbed
git checkout abc123 
git apply -v - <<'EOF_114329324912'
${patch}
EOF_114329324912
: '>>>>> Start Test Output'
LANG=C.UTF-8 LC_ALL=C.UTF-8 pytest -rA tests/test_x.py
: '>>>>> End Test Output'
git checkout abc123 
`,
  )
})

test('resets changed files before and after, and does not treat data files as tests', () => {
  const script = evalScript(task(changed('tests/test_a.py') + changed('tests/data.json'), 'pip install -e .'))
  assert.equal(script.split('\ngit checkout abc123 tests/test_a.py tests/data.json\n').length, 3)
  assert.ok(script.includes('\nLANG=C.UTF-8 LC_ALL=C.UTF-8 pip install -e .\n'))
  assert.ok(script.includes('\nLANG=C.UTF-8 LC_ALL=C.UTF-8 pytest -rA tests/test_a.py\n'))
})

test('a deleted test is no directive, a renamed one has its new name, and django needs labels', () => {
  const files = [
    { source: 'a/tests/gone.py', target: '/dev/null' },
    { source: 'a/tests/old.py', target: 'b/tests/app/new.py' },
  ]
  assert.deepEqual(testDirectives('o/r', files), ['tests/app/new.py'])
  assert.deepEqual(testDirectives('django/django', files), ['app.new'])
})

test('a name that Git quotes loses its prefix inside the quotes', () => {
  const name = String.raw`tests/\303\251.py"`
  assert.deepEqual(testDirectives('o/r', [{ source: `"a/${name}`, target: `"b/${name}` }]), [`"${name}`])
})

test('a header without a second name is a test by its first, and only the Git prefix is removed', () => {
  assert.deepEqual(testDirectives('o/r', [{ source: 'a/tests/x.py', target: '' }]), ['tests/x.py'])
  assert.deepEqual(testDirectives('o/r', [{ source: 'x', target: 'b/lib/a/x.py' }]), ['lib/a/x.py'])
  assert.deepEqual(testDirectives('o/r', [{ source: 'x', target: 'tests/b/x.py' }]), ['tests/b/x.py'])
})

test('django labels lose the tests folder and the extension only at their ends', () => {
  const label = (path: string) => testDirectives('django/django', [{ source: 'x', target: `b/${path}` }])
  assert.deepEqual(label('tests/app/test_x.py'), ['app.test_x'])
  assert.deepEqual(label('app/tests/test_x.py'), ['app.tests.test_x'])
  assert.deepEqual(label('tests/app/data.html'), ['app.data.html'])
})

test('data files with any extension are no tests', () => {
  for (const ending of [
    '.json',
    '.png',
    '.csv',
    'csv',
    '.txt',
    '.md',
    '.jpg',
    '.jpeg',
    '.pkl',
    '.yml',
    '.yaml',
    '.toml',
  ]) {
    assert.deepEqual(testDirectives('o/r', [{ source: 'x', target: `b/tests/data${ending}` }]), [], ending)
  }
})
