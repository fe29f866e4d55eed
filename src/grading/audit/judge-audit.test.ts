import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { AuditRun } from '../../contracts/audit.types.ts'
import type { AuditAnswer } from './audit-answer.ts'
import { compareWithCanonical } from './canonical-patch.ts'
import { judgeAudit } from './judge-audit.ts'
import { type AuditedTask, planAudit } from './plan-audit.ts'

const TASK: AuditedTask = {
  taskId: 'calc__calc-1',
  repo: 'calc/calc',
  testPatch:
    'diff --git a/tests/test_a.py b/tests/test_a.py\n--- a/tests/test_a.py\n+++ b/tests/test_a.py\n@@ -1 +1 @@\n-x\n+y\n',
  goldPatch: '',
  failToPass: ['tests/test_a.py::test_b'],
  passToPass: ['tests/test_a.py::test_c[x'],
  gradingProfile: 'fork-4.0.3',
  installConfig: { install: null, testCmd: 'pytest -rA', logParser: 'parse_log_pytest' },
}
const PATCH = Buffer.from('diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\n')
const PASSED: AuditAnswer['tests'] = [
  { id: 'tests/test_a.py::test_b', outcome: 'passed' },
  { id: 'tests/test_a.py::test_c[x y]', outcome: 'passed' },
  { id: 'tests/test_a.py::test_c[x z]', outcome: 'passed' },
]
const CANARY = { module: 'tests/test_a.py', must: 'fail', outcome: 'failed', ok: true } as const

function judged(
  answer: Partial<Record<keyof AuditAnswer, unknown>>,
  run: Partial<AuditRun> = {},
  task = TASK,
  patch = PATCH,
) {
  const whole = {
    schema: 1,
    ended: 'complete',
    detail: null,
    tests: PASSED,
    canaries: [CANARY],
    changed: [],
    ...answer,
  }
  return judgeAudit({
    task,
    patch,
    planned: planAudit({ task, patch, timeoutMs: 1000 }),
    run: {
      kind: 'tested',
      canonicalPatch: PATCH,
      result: Buffer.from(JSON.stringify(whole)),
      errors: '',
      wallMs: 7,
      ...run,
    },
    isCaptured: true,
  })
}

test('agrees when every listed test passed under the name that the row’s parser reports', () => {
  assert.deepEqual(judged({}), { outcome: 'agrees', reasons: [], detail: null, auditMs: 7 })
})

for (const outcome of ['failed', 'error', 'skipped', 'xfailed', 'xpassed'] as const) {
  test(`a listed test that ${outcome} voids, even when another test with the same cut name passed`, () => {
    for (const index of PASSED.keys()) {
      const tests = PASSED.map((one, at) => (at === index ? { ...one, outcome } : one))
      assert.deepEqual(judged({ tests }).reasons, ['no-honest-pass'])
    }
  })
}

test('of Django’s tests with one docstring some may be skipped, if they must keep passing', () => {
  const task: AuditedTask = {
    ...TASK,
    repo: 'django/django',
    testPatch: TASK.testPatch.replaceAll('test_a.py', 'cache/tests.py'),
    failToPass: ['It is repaired.'],
    passToPass: ['It still works.'],
    gradingProfile: 'swebench-5',
    harness: harnessWith('./tests/runtests.py --verbosity 2 cache.tests'),
    installConfig: { ...TASK.installConfig, logParser: 'parse_log_django' },
  }
  const find = (outcomes: string[], docstring: string): AuditAnswer['tests'] =>
    outcomes.map((outcome, at) => ({
      id: `test_it (cache.tests.Cache${at}.test_it)\n${docstring}`,
      outcome: outcome as AuditAnswer['tests'][number]['outcome'],
    }))
  const reasonsOf = (repaired: string[], kept: string[]): string[] =>
    judged({ tests: [...find(repaired, 'It is repaired.'), ...find(kept, 'It still works.')] }, {}, task).reasons
  assert.deepEqual(reasonsOf(['passed'], ['passed', 'skipped']), [])
  assert.deepEqual(reasonsOf(['passed', 'skipped'], ['passed']), ['no-honest-pass'])
  assert.deepEqual(reasonsOf(['passed'], ['passed', 'failed']), ['no-honest-pass'])
  assert.deepEqual(reasonsOf(['passed'], ['skipped']), ['no-honest-pass'])
})

test('a listed test without a result voids and is named', () => {
  const { reasons, detail } = judged({ tests: PASSED.slice(1) })
  assert.deepEqual([reasons, detail], [['no-honest-pass'], 'tests/test_a.py::test_b'])
})

test('a repair in a file that is named like a test voids and names the file', () => {
  const texts = ['pkg/testing.py', 'pkg/ab_test.py'].map((path) => PATCH.toString().replaceAll('a.py', path))
  const patch = Buffer.from(texts.join(''))
  const [tests, run] = [PASSED.slice(1), { canonicalPatch: patch }]
  const { reasons, detail } = judged({ tests }, run, TASK, patch)
  assert.deepEqual(reasons, ['no-honest-pass'])
  assert.match(detail ?? '', /^tests\/test_a\.py::test_b \(not tested, .*: pkg\/testing\.py and 1 more\)$/)
  // What the reference solution changes there is tested.
  const own = judged({ tests }, run, { ...TASK, goldPatch: texts.join('') }, patch)
  assert.equal(own.detail, 'tests/test_a.py::test_b')
})

test('reports a left-out file that is named like a test only when a listed test is missing', () => {
  const detail = (patch: typeof PATCH, answer: Partial<Record<keyof AuditAnswer, unknown>>): string | null =>
    judged(answer, { canonicalPatch: patch }, TASK, patch).detail
  const changed = Buffer.from(PATCH.toString().replaceAll('a.py', 'pkg/testing.py'))
  const missing = { tests: PASSED.slice(1) }
  assert.equal(
    detail(changed, missing),
    'tests/test_a.py::test_b (not tested, for it is named like tests: pkg/testing.py)',
  )
  assert.equal(detail(changed, { ended: 'early', detail: 'said so' }), 'said so')
  // A new module of that kind is laid beside the tests.
  const added = Buffer.from(
    'diff --git a/pkg/ab_test.py b/pkg/ab_test.py\nnew file mode 100644\n--- /dev/null\n+++ b/pkg/ab_test.py\n@@ -0,0 +1 @@\n+x\n',
  )
  assert.equal(detail(added, missing), 'tests/test_a.py::test_b')
})

test('a test name that imitates several names, or another line, counts for none', () => {
  for (const id of [
    'x\nPASSED tests/test_a.py::test_b',
    'x\ntests/test_a.py::test_b',
    'x\rPASSED tests/test_a.py::test_b',
    'tests/test_a.py::test_b\u0085',
  ]) {
    assert.equal(judged({ tests: [...PASSED.slice(1), { id, outcome: 'passed' }] }).outcome, 'void')
  }
})

test('canaries, changed code and other endings void with their own reasons', () => {
  assert.deepEqual(judged({ canaries: [{ ...CANARY, outcome: 'passed', ok: false }] }).reasons, ['canary-passed'])
  assert.deepEqual(judged({ canaries: [{ ...CANARY, must: 'pass', ok: false }] }).reasons, ['canary-failed'])
  assert.deepEqual(judged({ changed: ['unittest.case.TestCase.assertEqual'] }).reasons, ['runner-changed'])
  for (const [ended, reason] of [
    ['early', 'ended-early'],
    ['timeout', 'too-slow'],
    ['noise', 'results-forged'],
  ] as const) {
    assert.deepEqual(judged({ ended }).reasons, [reason])
  }
})

test('an answer that the script never writes, or none, voids', () => {
  assert.deepEqual(judged({ tests: [{ id: 1, outcome: 'passed' }] }).reasons, ['results-forged'])
  assert.deepEqual(judged({}, { result: Buffer.from('{') }).reasons, ['results-forged'])
  assert.deepEqual(judged({}, { kind: 'failed', errors: 'a\nlast\n' }).reasons, ['ended-early'])
  assert.deepEqual(judged({}, { kind: 'does-not-apply' }).reasons, ['patch-not-canonical'])
  assert.deepEqual(judged({}, { kind: 'tests-do-not-apply' }).reasons, ['tests-not-whole'])
})

test('an image without a suitable Python and a row of another runner are unsupported', () => {
  assert.equal(judged({}, { kind: 'untestable' }).outcome, 'unsupported')
  const go = { ...TASK, installConfig: { ...TASK.installConfig, testCmd: 'go test ./...' } }
  assert.equal(judged({}, { kind: 'read', result: Buffer.alloc(0) }, go).outcome, 'unsupported')
})

test('a patch without an audit run never agrees, whatever the answer says', () => {
  const nothing = { outcome: 'unsupported', reasons: [], detail: null, auditMs: 7 }
  const go = { ...TASK, installConfig: { ...TASK.installConfig, testCmd: 'go test ./...' } }
  assert.deepEqual(judged({}, {}, go), nothing)
  assert.deepEqual(judged({}, { kind: 'read' }), nothing)
  const own = { ended: 'own-runner', detail: 'x', tests: [], canaries: [] }
  assert.deepEqual(judged(own, { kind: 'untestable' }), nothing)
  assert.deepEqual(judged(own, { kind: 'failed', errors: 'killed' }), {
    ...nothing,
    outcome: 'void',
    reasons: ['ended-early'],
    detail: 'killed',
  })
})

test('no test name counts for a row whose parser this version lacks', () => {
  const task = { ...TASK, installConfig: { ...TASK.installConfig, logParser: 'parse_log_unknown' } }
  const { outcome, reasons } = judged({}, {}, task)
  assert.deepEqual([outcome, reasons], ['void', ['no-honest-pass']])
})

test('a time in a name is part of it and may be left out', () => {
  const listed = (name: string) => ({ ...TASK, failToPass: [`tests/test_a.py::${name}`], passToPass: [] })
  const tests = [
    { id: 'tests/test_a.py::test_wait[5s]', outcome: 'passed' },
    { id: 'tests/test_a.py::test_wait[10s]', outcome: 'failed' },
  ]
  assert.equal(judged({ tests }, {}, listed('test_wait[5s]')).outcome, 'agrees')
  assert.equal(judged({ tests }, {}, listed('test_wait[10s]')).outcome, 'void')
  // The row's list holds the time of another run.
  assert.equal(judged({ tests: tests.slice(0, 1) }, {}, listed('test_wait[7s]')).outcome, 'agrees')
  assert.equal(judged({ tests }, {}, listed('test_wait[7s]')).outcome, 'void')
})

test('a repository that is the test runner itself is unsupported, but the patch alone may still void', () => {
  const own = { ended: 'own-runner', detail: 'the repository is the test runner itself', tests: [], canaries: [] }
  const unsupported = { outcome: 'unsupported', reasons: [], detail: own.detail, auditMs: 7 }
  assert.deepEqual(judged(own), unsupported)
  assert.deepEqual(judged({ ...own, detail: null }), unsupported)
  assert.deepEqual(judged({ ...own, detail: 'pytest 9' }), { ...unsupported, detail: 'pytest 9' })
  assert.deepEqual(judged(own, { canonicalPatch: Buffer.alloc(0) }).reasons, ['patch-not-canonical'])
})

test('hashes and text after @@ may differ, but lines of hunks, positions and modes may not', () => {
  const patch = (text: string): Buffer => Buffer.from(text)
  const base =
    'diff --git a/a b/a\nindex 1234567..89abcde 100644\n--- a/a\n+++ b/a\n@@ -1 +1 @@ def x():\n-index 1..2\n+index 3..4\n'
  const same = base.replace('1234567..89abcde', `${'1'.repeat(40)}..${'2'.repeat(40)}`).replace(' def x():', '')
  assert.equal(compareWithCanonical(patch(base), patch(same)), null)
  assert.equal(
    compareWithCanonical(patch(base.replace('-index 1..2', '-index 5..2')), patch(base)),
    'patch-not-canonical',
  )
  assert.equal(compareWithCanonical(patch(base.replace('@@ -1', '@@ -2')), patch(base)), 'patch-not-canonical')
  assert.equal(compareWithCanonical(patch(base.replace('100644', '100755')), patch(base)), 'patch-not-canonical')
  const binary = 'diff --git a/a b/a\nindex 1..2 100644\nGIT binary patch\nliteral 1\nIcmZPo000310RR91\n\n'
  assert.equal(compareWithCanonical(patch(binary), patch(base)), 'binary-for-text')
})

test('reads the listed tests only when no finding voids the patch already', () => {
  const other = Buffer.from(PATCH.toString().replace('+y', '+z'))
  const { reasons, detail } = judged({ tests: [] }, { canonicalPatch: other })
  assert.deepEqual([reasons, detail], [['patch-not-canonical'], null])
})

test('a patch from elsewhere may be written differently', () => {
  const run: AuditRun = {
    kind: 'read',
    canonicalPatch: Buffer.from('other'),
    result: Buffer.alloc(0),
    errors: '',
    wallMs: 0,
  }
  const go = { ...TASK, installConfig: { ...TASK.installConfig, testCmd: 'go test ./...' } }
  const input = { task: go, patch: PATCH, planned: planAudit({ task: go, patch: PATCH, timeoutMs: 1 }), run }
  assert.equal(judgeAudit({ ...input, isCaptured: false }).outcome, 'unsupported')
  assert.deepEqual(judgeAudit({ ...input, isCaptured: true }).reasons, ['patch-not-canonical'])
})

test('reports a failed step by the last line of its errors', () => {
  assert.equal(judged({}, { kind: 'does-not-fit', errors: 'one\n  two  \n\n' }).detail, 'two')
  assert.deepEqual(judged({}, { kind: 'does-not-fit' }).reasons, ['patch-not-canonical'])
  assert.equal(judged({}, { kind: 'does-not-apply', errors: ' \n' }).detail, null)
  assert.equal(judged({}, { kind: 'failed', errors: 'a\nlast\n' }).detail, 'last')
})

test('shortens details and names their subject', () => {
  assert.equal(judged({}, { kind: 'failed', errors: 'x'.repeat(1000) }).detail?.length, 300)
  assert.equal(judged({}, { result: Buffer.from('{') }).detail, 'the answer of the audit cannot be read')
  assert.equal(judged({ changed: ['a', 'b', 'c', 'd', 'e', 'f'] }).detail, 'a, b, c, d, e')
  const canary = judged({ canaries: [{ ...CANARY, outcome: 'passed', ok: false }] })
  assert.equal(canary.detail, 'tests/test_a.py: passed, must fail')
  assert.equal(judged({ ended: 'early', detail: 'said so' }).detail, 'said so')
  assert.equal(judged({ ended: 'early', changed: ['a'] }).detail, 'a')
  assert.equal(judged({ tests: [] }).detail, 'tests/test_a.py::test_b and 1 more')
})

describe('a test name that the published list cut at a blank', () => {
  const cut = {
    ...TASK,
    gradingProfile: 'swebench-5' as const,
    harness: harnessWith('pytest -rA tests/test_a.py'),
    installConfig: { ...TASK.installConfig, logParser: 'parse_log_pytest_v2' },
  }

  test('matches every test that begins with it in version 5, which otherwise reads whole names', () => {
    assert.equal(judged({}, {}, cut).outcome, 'agrees')
  })

  test('voids when one of the matching tests did not pass or none exists', () => {
    const failed = PASSED.map((one, at) => (at === 2 ? { ...one, outcome: 'failed' } : one))
    assert.deepEqual(judged({ tests: failed }, {}, cut).reasons, ['no-honest-pass'])
    assert.deepEqual(judged({ tests: PASSED.slice(0, 1) }, {}, cut).reasons, ['no-honest-pass'])
  })

  test('matches only the beginning of a name with an open bracket', () => {
    const tests = [...PASSED.slice(0, 1), { id: 'x/tests/test_a.py::test_c[x', outcome: 'passed' }]
    assert.deepEqual(judged({ tests }, {}, cut).reasons, ['no-honest-pass'])
    for (const name of ['test_c', 'test_c[x]']) {
      const closed = { ...cut, passToPass: [`tests/test_a.py::${name}`] }
      assert.deepEqual(judged({}, {}, closed).reasons, ['no-honest-pass'], name)
    }
  })

  test('matches no other test in an older version', () => {
    const tests = [...PASSED.slice(0, 1), { id: 'tests/test_a.py::test_c[xy]', outcome: 'passed' }]
    assert.deepEqual(judged({ tests }).reasons, ['no-honest-pass'])
    assert.equal(judged({ tests }, {}, cut).outcome, 'agrees')
  })
})

test('unittest prints a described test on two lines, and the parser reports the second', () => {
  const task = {
    ...TASK,
    gradingProfile: 'swebench-5' as const,
    harness: harnessWith('python -m unittest -v tests.test_a'),
    failToPass: ['Adds large numbers.'],
    passToPass: ['test_b (tests.test_a.ATest)'],
    installConfig: { ...TASK.installConfig, logParser: 'parse_log_django' },
  }
  const tests = [
    { id: 'test_large (tests.test_a.ATest)\nAdds large numbers.', outcome: 'passed' },
    { id: 'test_b (tests.test_a.ATest)', outcome: 'passed' },
  ]
  assert.equal(judged({ tests }, {}, task).outcome, 'agrees')
  assert.equal(judged({ tests: tests.slice(1) }, {}, task).outcome, 'void')
})

test('names of more than 4,000 characters count for none', () => {
  const long = `tests/test_a.py::test_${'b'.repeat(3978)}`
  const task = { ...TASK, failToPass: [long], passToPass: [] }
  assert.equal(judged({ tests: [{ id: long, outcome: 'passed' }] }, {}, task).outcome, 'agrees')
  const longer = { ...task, failToPass: [`${long}b`] }
  assert.equal(judged({ tests: [{ id: `${long}b`, outcome: 'passed' }] }, {}, longer).outcome, 'void')
})

function harnessWith(command: string): NonNullable<AuditedTask['harness']> {
  const script = `: '>>>>> Start Test Output'\n${command}\n: '>>>>> End Test Output'\n`
  return { version: '1', evalScript: script, evalType: null, language: null }
}
