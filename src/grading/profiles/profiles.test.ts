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

test('swebench-4.1: commands come from repository and version, with the evaluation first', () => {
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

test('swebench-4.1: every unquoted header in the text is a directive, also of deleted files and in hunks', () => {
  const header = (path: string): string => `diff --git a/${path} b/${path}\n`
  const patch = `${header('t/gone.py')}deleted file mode 100644\n+${header('t/inside.py')}${header('d.json')}diff --git "a/t/\\303.py" "b/t/\\303.py"\n`
  assert.deepEqual(testDirectives('psf/requests', patch), ['t/gone.py', 't/inside.py'])
  for (const [line, expected] of [
    ['diff --git a/ b/t/empty.py', ['t/empty.py']],
    ['diff --git a/t/x.py b/y b/t/last.py', ['t/last.py']],
    [String.raw`diff --git a/t/x.py "b/t/\303.py"`, []],
    ['-see the changes between a/t/x.py and b/t/x.py', []],
    ['+compare b/t/x.py with diff --git a/t/y.py', []],
    ['no header', []],
  ] as const) {
    assert.deepEqual(testDirectives('psf/requests', line), expected, line)
  }
})

test('swebench-4.1: refuses a version that upstream does not know, with repository and version', () => {
  const unknown = task({ harness: { version: '99', evalScript: null, evalType: null, language: null } })
  assert.throws(() => RUN_PROFILES['swebench-4.1'].plan(unknown, { hasPatch: true }), {
    code: 'Task.Invalid',
    message: /version/,
  })
})

test('swebench-5: rewrites the head and takes the exit code at the first end marker', () => {
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

test('swebench-5: adds binary files just before the tests', () => {
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

test('swebench-5: cleans the tree between attempts, and an already applied patch counts', () => {
  const five = task({ harness: { version: '3.0', evalScript: 'pytest', evalType: null, language: null } })
  const plan = RUN_PROFILES['swebench-5'].plan(five, { hasPatch: true })
  assert.equal(plan.applyCommands.length, 4)
  assert.deepEqual(plan.resetCommand, ['/bin/bash', '-c', 'git checkout -- . ; git clean -fd'])
  assert.deepEqual(plan.lastCheck?.slice(0, 4), ['git', 'apply', '--check', '--reverse'])
  assert.equal(RUN_PROFILES['swebench-5'].plan(five, { hasPatch: false }).applyCommands.length, 0)
})

test('rebench-v2: resets, applies both patches and runs under set -e, and only resets without a patch', () => {
  const installConfig = { install: null, testCmd: 'go build\ngo test -v', logParser: 'parse_log_gotest' }
  const plan = RUN_PROFILES['rebench-v2'].plan(task({ installConfig, repoDir: '/r' }), { hasPatch: true })
  const apply = 'git apply -v --3way --recount --ignore-space-change --whitespace=nowarn /patches'
  assert.deepEqual(plan.applyCommands, [['/bin/bash', '-c', `set -e\ngit reset --hard HEAD\n${apply}/patch.diff`]])
  assert.equal(plan.evalScript, `set -e\n${apply}/test_patch.diff\ngo build\ngo test -v`)
  assert.deepEqual(plan.files, { '/patches/test_patch.diff': TEST_PATCH })
  const without = RUN_PROFILES['rebench-v2'].plan(task({ installConfig }), { hasPatch: false })
  assert.deepEqual(without.applyCommands, [['/bin/bash', '-c', 'set -e\ngit reset --hard HEAD']])
})

const GIT_4 = [
  ['git', 'apply', '--verbose', '/tmp/patch.diff'],
  ['git', 'apply', '--verbose', '--reject', '/tmp/patch.diff'],
  ['patch', '--batch', '--fuzz=5', '-p1', '-i', '/tmp/patch.diff'],
]

test('the fork and swebench 4.1 try three ways to apply a patch without a clean-up between them', () => {
  const installConfig = { install: null, testCmd: 'pytest', logParser: 'parse_log_pytest' }
  for (const name of ['fork-4.0.3', 'swebench-4.1'] as const) {
    const { evalScript: script, ...plan } = RUN_PROFILES[name].plan(task({ installConfig }), { hasPatch: true })
    assert.ok(script.startsWith('#!/bin/bash\n'), name)
    assert.deepEqual(plan, {
      patchPath: '/tmp/patch.diff',
      applyCommands: GIT_4,
      resetCommand: null,
      lastCheck: null,
      output: 'merged',
      files: {},
      environment: {},
    })
    const without = RUN_PROFILES[name].plan(task({ installConfig }), { hasPatch: false })
    assert.deepEqual([without.applyCommands, without.evalScript], [[], script])
  }
})

test('swebench-5 tries four ways to apply a patch', () => {
  const five = task({ harness: { version: '3.0', evalScript: 'pytest', evalType: null, language: null } })
  const {
    evalScript: _script,
    resetCommand: _reset,
    ...plan
  } = RUN_PROFILES['swebench-5'].plan(five, { hasPatch: true })
  assert.deepEqual(plan, {
    patchPath: '/tmp/patch.diff',
    applyCommands: [
      ['git', 'apply', '--verbose', '/tmp/patch.diff'],
      ['git', 'apply', '--verbose', '--3way', '/tmp/patch.diff'],
      ['git', 'apply', '--verbose', '--reject', '/tmp/patch.diff'],
      ['patch', '--batch', '--forward', '--fuzz=5', '-p1', '-i', '/tmp/patch.diff'],
    ],
    lastCheck: ['git', 'apply', '--check', '--reverse', '/tmp/patch.diff'],
    output: 'merged',
    files: {},
    environment: {},
  })
  assert.equal(RUN_PROFILES['swebench-5'].plan(five, { hasPatch: false }).lastCheck, null)
})

/** A row of a data set that says nothing about its harness. */
function withoutHarness(): RunTask {
  const { harness: _harness, ...rest } = task({})
  return rest
}

test('swebench-5: refuses a row without a script, with its column', () => {
  for (const one of [task({}), withoutHarness()]) {
    assert.throws(() => RUN_PROFILES['swebench-5'].plan(one, { hasPatch: true }), {
      code: 'Task.Invalid',
      details: { row: 'o__r-1', column: 'eval_script' },
    })
  }
})

test('swebench-5: completes a script that begins with its end marker or has no start marker', () => {
  const marker = ": '>>>>> End Test Output'"
  assert.equal(
    evalScript(marker),
    `#!/bin/bash\nset -uxo pipefail\nSWEBENCH_TEST_EXIT_CODE=$?\n${marker}\necho ">>>>> Test Exit Code: $SWEBENCH_TEST_EXIT_CODE"\n`,
  )
  assert.equal(
    evalScript('pytest', [{ path: 'a/b.png' }, { path: 'c.png' }]),
    '#!/bin/bash\nset -uxo pipefail\npytest\n\nmkdir -p $(dirname a/b.png) && cp /image_assets/a__b.png a/b.png\nmkdir -p $(dirname c.png) && cp /image_assets/c.png c.png',
  )
})

test('swebench-4.1: refuses an unknown repository and a row without a version', () => {
  const refusal = (one: RunTask, details: object) =>
    assert.throws(() => RUN_PROFILES['swebench-4.1'].plan(one, { hasPatch: true }), {
      code: 'Task.Invalid',
      details: { row: 'o__r-1', column: 'version', ...details },
    })
  refusal(task({ repo: 'o/unknown' }), { repo: 'o/unknown', version: '3.0' })
  const unversioned = { version: null, evalScript: null, evalType: null, language: null }
  refusal(task({ harness: unversioned }), { repo: 'django/django', version: null })
  refusal(withoutHarness(), { repo: 'django/django', version: null })
})

test('rebench-v2: keeps the two streams separate, and Java uses IPv4', () => {
  const plan = RUN_PROFILES['rebench-v2'].plan(task({}), { hasPatch: true })
  assert.deepEqual(
    [plan.patchPath, plan.output, plan.environment],
    ['/patches/patch.diff', 'apart', { _JAVA_OPTIONS: '-Djava.net.preferIPv6Addresses=false' }],
  )
})

test('each profile has its name and names the upstream that it imitates', () => {
  for (const [name, profile] of Object.entries(RUN_PROFILES)) assert.equal(profile.name, name)
  assert.deepEqual(
    Object.values(RUN_PROFILES).map(({ upstream }) => upstream),
    [
      'SWE-rebench/SWE-bench-fork 39316f79cd51c144fb0c62c157ef4739e7653577',
      'PyPI swebench 4.1.0',
      'PyPI swebench 5.0.2',
      'SWE-rebench/SWE-rebench-V2 c71902a8cf8d2b725f63d51f199f4d3e56f68d2d',
    ],
  )
})
