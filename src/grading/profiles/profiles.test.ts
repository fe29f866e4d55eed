import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RunTask } from './run-profile.ts'
import { RUN_PROFILES } from './run-profiles.ts'
import { testDirectives } from './swebench-4.1.ts'
import { evalScript } from './swebench-5.ts'

const TEST_PATCH = 'diff --git a/tests/t.py b/tests/t.py\n--- a/tests/t.py\n+++ b/tests/t.py\n@@ -1 +1 @@\n-x\n+y\n'

const task = (changes: Partial<RunTask>): RunTask => ({
  taskId: 'o__r-1',
  repo: 'django/django',
  repoDir: '/testbed',
  baseCommit: 'abc123',
  testPatch: TEST_PATCH,
  installConfig: { install: null, testCmd: '', logParser: 'django/django' },
  harness: { version: '3.0', evalScript: null, evalType: null, language: null },
  ...changes,
})

test('swebench-4.1: commands of repository and version, those of the evaluation first', () => {
  const { evalScript: script } = RUN_PROFILES['swebench-4.1'].plan(task({}), { hasPatch: true })
  const lines = script.split('\n')
  assert.deepEqual(lines.slice(4, 10), [
    'cd /testbed',
    "sed -i '/en_US.UTF-8/s/^# //g' /etc/locale.gen && locale-gen",
    'export LANG=en_US.UTF-8',
    'export LANGUAGE=en_US:en',
    'export LC_ALL=en_US.UTF-8',
    'git config --global --add safe.directory /testbed',
  ])
  assert.ok(lines.includes('python -m pip install -e .'))
  assert.ok(lines.includes('./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1 t'))
})

test('swebench-4.1: every header in the text is a directive, deleted files too, headers in hunks too, quoted ones not', () => {
  const header = (path: string): string => `diff --git a/${path} b/${path}\n`
  const patch = `${header('t/gone.py')}deleted file mode 100644\n+${header('t/inside.py')}${header('d.json')}diff --git "a/t/\\303.py" "b/t/\\303.py"\n`
  assert.deepEqual(testDirectives('psf/requests', patch), ['t/gone.py', 't/inside.py'])
})

test('swebench-4.1: a version that upstream does not know is refused with both', () => {
  const unknown = task({ harness: { version: '99', evalScript: null, evalType: null, language: null } })
  assert.throws(() => RUN_PROFILES['swebench-4.1'].plan(unknown, { hasPatch: true }), {
    code: 'Task.Invalid',
    message: /version/,
  })
})

test('swebench-5: the head is made anew, the exit code is taken at the first end marker', () => {
  const marker = ": '>>>>> End Test Output'"
  const script = `\n#!/bin/bash\nset -uxo pipefail\ncd /testbed\nset -uxo pipefail\n${marker}\n${marker}\n\n`
  assert.equal(
    evalScript(script),
    [
      '#!/bin/bash',
      'set -uxo pipefail',
      'cd /testbed',
      'SWEBENCH_TEST_EXIT_CODE=$?',
      marker,
      'echo ">>>>> Test Exit Code: $SWEBENCH_TEST_EXIT_CODE"',
      marker,
      '',
    ].join('\n'),
  )
  assert.equal(evalScript('pytest'), '#!/bin/bash\nset -uxo pipefail\npytest\n')
})

test('swebench-5: files that no patch carries are laid just before the tests', () => {
  const script = "git apply -\n: '>>>>> Start Test Output'\ntest"
  const lines = evalScript(script, [{ path: 'a/b c.png' }, { path: 'd.png' }]).split('\n')
  assert.deepEqual(lines.slice(2), [
    'git apply -',
    'mkdir -p $(dirname a/b c.png) && cp /image_assets/a__b c.png a/b c.png',
    'mkdir -p $(dirname d.png) && cp /image_assets/d.png d.png',
    ": '>>>>> Start Test Output'",
    'test',
    '',
  ])
})

test('swebench-5: the tree is cleaned between attempts, and a patch that lies in the tree already counts', () => {
  const five = task({ harness: { version: '3.0', evalScript: 'pytest', evalType: null, language: null } })
  const plan = RUN_PROFILES['swebench-5'].plan(five, { hasPatch: true })
  assert.equal(plan.applyCommands.length, 4)
  assert.deepEqual(plan.resetCommand, ['/bin/bash', '-c', 'git checkout -- . ; git clean -fd'])
  assert.deepEqual(plan.lastCheck?.slice(0, 4), ['git', 'apply', '--check', '--reverse'])
  assert.equal(RUN_PROFILES['swebench-5'].plan(five, { hasPatch: false }).applyCommands.length, 0)
})

test('rebench-v2: reset, patch, test patch and commands under set -e; without a patch the reset alone comes first', () => {
  const installConfig = { install: null, testCmd: 'go build\ngo test -v', logParser: 'parse_log_gotest' }
  const plan = RUN_PROFILES['rebench-v2'].plan(task({ installConfig, repoDir: '/r' }), { hasPatch: true })
  const apply = 'git apply -v --3way --recount --ignore-space-change --whitespace=nowarn /patches'
  assert.deepEqual(plan.applyCommands, [['/bin/bash', '-c', `set -e\ngit reset --hard HEAD\n${apply}/patch.diff`]])
  assert.equal(plan.evalScript, `set -e\n${apply}/test_patch.diff\ngo build\ngo test -v`)
  assert.deepEqual(plan.files, { '/patches/test_patch.diff': TEST_PATCH })
  const without = RUN_PROFILES['rebench-v2'].plan(task({ installConfig }), { hasPatch: false })
  assert.deepEqual(without.applyCommands, [['/bin/bash', '-c', 'set -e\ngit reset --hard HEAD']])
})
