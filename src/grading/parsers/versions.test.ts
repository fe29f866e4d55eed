/** Where the upstreams' parsers of one name part ways. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LOG_PROFILES, type LogProfileName } from '../log-profiles.ts'
import { PythonError } from './python-text.ts'
import { HANG_MS } from '../../../test/support/hang.ts'

const ESC = '\u001b'

function parse(profile: LogProfileName, parser: string, log: string): [string, string][] {
  const found = LOG_PROFILES[profile].parsers.get(parser)
  assert.ok(found, `${profile} knows ${parser}`)
  return [...found(log)]
}

/** line, `pytest_v2` of swebench 5, `pytest` of SWE-rebench-V2; null = no entry. */
const VECTORS: [string, [string, string] | null, [string, string] | null][] = [
  ['PASSED a.py::t', ['a.py::t', 'PASSED'], ['a.py::t', 'PASSED']],
  ['FAILED a.py::t - E: x - y', ['a.py::t', 'FAILED'], ['a.py::t', 'FAILED']],
  ['PASSED a.py::t[a b]', ['a.py::t[a b]', 'PASSED'], ['a.py::t[a', 'PASSED']],
  ['FAILED a.py::t[a - b] - boom', ['a.py::t[a', 'FAILED'], ['a.py::t[a', 'FAILED']],
  ['XFAIL a.py::t - why', ['a.py::t - why', 'XFAIL'], null],
  ['ERROR a.py::t - why', ['a.py::t - why', 'ERROR'], ['a.py::t', 'ERROR']],
  ['SKIPPED a.py::t - why', ['a.py::t - why', 'SKIPPED'], ['a.py::t', 'SKIPPED']],
  ['SKIPPED [3] a.py:1: r', null, ['[3]', 'SKIPPED']],
  ['PASSED [100%]', ['[100%]', 'PASSED'], ['[100%]', 'PASSED']],
  ['FAILED to connect', ['to connect', 'FAILED'], ['to', 'FAILED']],
  ['ERROR: usage: pytest', ['usage: pytest', 'ERROR:'], ['usage:', 'ERROR:']],
  ['a.py::t PASSED', ['a.py::t', 'PASSED'], null],
  ['a.py::t[a b] PASSED', ['a.py::t[a b]', 'PASSED'], null],
  ['4 passed, 1 ERROR', ['4 passed, 1', 'ERROR'], null],
  [`${ESC}[32mPASSED${ESC}[0m a.py::t`, ['a.py::t', 'PASSED'], null],
  ['PASSED\ta.py::t', null, ['a.py::t', 'PASSED']],
  ['PASSED\u001Fa.py::t', null, ['a.py::t', 'PASSED']],
  ['PASSED', null, null],
  ['XPASSED', null, null],
  ['SKIPPED x[3]', ['x[3]', 'SKIPPED'], ['x[3]', 'SKIPPED']],
  ['SKIPPED [3]x', ['[3]x', 'SKIPPED'], ['[3]x', 'SKIPPED']],
]

for (const [line, five, rebench] of VECTORS) {
  test(`reads the summary line ${JSON.stringify(line)} like swebench 5 and SWE-rebench-V2`, () => {
    assert.deepEqual(parse('swebench-5', 'parse_log_pytest_v2', line), five === null ? [] : [five])
    assert.deepEqual(parse('rebench-v2', 'parse_log_pytest', line), rebench === null ? [] : [rebench])
  })
}

test('a count of skipped tests is no test under swebench 5, in any script, and one under 4.1', () => {
  for (const parser of ['parse_log_pytest', 'parse_log_pytest_options', 'parse_log_matplotlib']) {
    assert.deepEqual(parse('swebench-5', parser, 'SKIPPED [3] a.py:1: r\nSKIPPED [٣] a.py:1: r'), [])
    assert.equal(parse('swebench-4.1', parser, 'SKIPPED [3] a.py:1: r').length, 1)
  }
})

test('a line of one word raises in pytest_v2 and in seaborn, and swebench 5 ignores it', () => {
  const raises = (profile: LogProfileName, parser: string, log: string): void =>
    assert.throws(() => parse(profile, parser, log), PythonError)
  raises('rebench-v2', 'parse_log_pytest_v2', 'PASSED')
  raises('rebench-v2', 'parse_log_pytest_v2', 'XPASSED')
  raises('swebench-4.1', 'mwaskom/seaborn', 'FAILED')
  raises('rebench-v2', 'parse_log_seaborn', ' PASSED ')
  assert.deepEqual(parse('swebench-5', 'parse_log_seaborn', 'FAILED\n PASSED \nPASSED'), [])
})

test('seaborn reads summary lines and the verbose report', () => {
  const log = 'a.py::t PASSED [ 50%]\nFAILED a.py::u - why\nPASSED a.py::v\nx a.py::w PASSED y\na.py::z FAILED'
  assert.deepEqual(parse('swebench-4.1', 'mwaskom/seaborn', log), [
    ['a.py::t', 'PASSED'],
    ['a.py::u', 'FAILED'],
    ['a.py::v', 'PASSED'],
  ])
})

test('mouse buttons of matplotlib are printed as numbers', () => {
  const log = 'PASSED a.py::t[MouseButton.LEFT-MouseButton.RIGHT]'
  assert.deepEqual(parse('swebench-4.1', 'matplotlib/matplotlib', log), [['a.py::t[1-3]', 'PASSED']])
})

test('django: reads results, the test that ok credits, an interrupted line, and a failure without a name', () => {
  const log = [
    'test_a (x.T) ... ok',
    "test_b (x.T) ... skipped 'why'",
    'test_c (x.T) ... FAIL',
    'FAIL: test_d (x.T)',
    'test_e (x.T) ... output',
    'okay',
    'test_f (x.T) ... System check identified no issues (0 silenced)',
    'ok',
    'Applying sites.0002_alter_domain_unique...test_no_migrations (x) ... ok',
    'test_g ... Testing against Django installed in /x',
    'with 2 processes (0 silenced).',
    'ok',
    '  --version is equivalent to version',
    'test_h (x.T) ... expected failure',
  ].join('\n')
  assert.deepEqual(Object.fromEntries(parse('swebench-5', 'parse_log_django', log)), {
    'test_a (x.T)': 'PASSED',
    'test_b (x.T)': 'SKIPPED',
    'test_c (x.T)': 'FAILED',
    test_d: 'FAILED',
    'test_e (x.T)': 'PASSED',
    'test_f (x.T)': 'PASSED',
    'test_no_migrations (x)': 'PASSED',
    test_g: 'PASSED',
    '--version is equivalent to version': 'PASSED',
  })
  assert.throws(() => parse('swebench-4.1', 'django/django', 'ERROR:'), PythonError)
})

test('django: each message inside a line credits the test before it, the last one only with its end', () => {
  const message = (name: string): string => `${name} ... Testing against Django installed in /x\nCreating ... x`
  const end = 'with 2 processes (0 silenced).\nok'
  const log = [message('test_a'), end, message('test_b'), end, message('test_c')].join('\n')
  assert.deepEqual(Object.fromEntries(parse('swebench-4.1', 'django/django', log)), {
    Creating: 'PASSED',
    test_a: 'PASSED',
    test_b: 'PASSED',
  })
})

test('sympy: reads headings and last words, and SWE-rebench-V2 removes the mark of the file', () => {
  const log = '____ sympy/a.py:test_x ____\ntest_a ok\ntest_b F\ntest_c E\ntest_d ok [OK]\nx y.py:z\n.py:z\n.py: z'
  const both: [string, string][] = [
    ['sympy/a.py:test_x', 'FAILED'],
    ['test_a', 'PASSED'],
    ['test_b', 'FAILED'],
    ['test_c', 'ERROR'],
  ]
  assert.deepEqual(parse('swebench-4.1', 'sympy/sympy', log), both)
  assert.deepEqual(parse('rebench-v2', 'parse_log_sympy', log), [...both, ['test_d', 'PASSED']])
})

test('a line of a million blanks and file names takes linear time', { timeout: HANG_MS }, () => {
  assert.equal(parse('swebench-4.1', 'sympy/sympy', `${' .py:x'.repeat(200_000)} y`).length, 1)
  const beginnings = 'x ... Testing against Django installed in y\n'.repeat(20_000)
  assert.deepEqual(parse('swebench-4.1', 'django/django', beginnings), [])
})

test('a report of many unclosed elements takes linear time', { timeout: HANG_MS }, () => {
  const open = '<testcase name="a">'.repeat(100_000)
  assert.deepEqual(
    parse('rebench-v2', 'parse_log_junit', `${open}${'.'.repeat(5000)}<failure<testcase name="b"><failure`),
    [
      ['a', 'PASSED'],
      ['b', 'FAILED'],
    ],
  )
})

test('nebo reads workers, percentages and ids with blanks', () => {
  const log = [
    '[gw0] [ 50%] PASSED a.py::t[a b] ',
    'a.py::u FAILED [ 75%] in 0.12s',
    'SKIPPED a.py::v in 0.1s',
    '[gw1] [ 75%] XFAIL a.py::w',
  ].join('\u2028')
  assert.deepEqual(parse('rebench-v2', 'parse_log_pytest_nebo', log), [
    ['a.py::t[a b]', 'PASSED'],
    ['a.py::u', 'FAILED'],
    ['a.py::v', 'SKIPPED'],
  ])
})

test('go, cargo, jest, vitest and gradle: reads one result per line', () => {
  const read = (parser: string, ...lines: string[]): object =>
    Object.fromEntries(parse('rebench-v2', parser, lines.join('\n')))
  assert.deepEqual(read('parse_log_gotest', '    --- PASS: T/a (b) (0.00s)', '--- SKIP: U (0s)', '--- FAIL: V'), {
    'T/a (b)': 'PASSED',
    U: 'SKIPPED',
  })
  assert.deepEqual(read('parse_log_cargo', 'test a ... ok', 'test b ... FAILED', 'test c - should panic ... ok'), {
    a: 'PASSED',
    b: 'FAILED',
  })
  assert.deepEqual(read('parse_log_jest', '  ✓ adds (12 ms)', '✕ fails', '○ later'), {
    adds: 'PASSED',
    fails: 'FAILED',
    later: 'SKIPPED',
  })
  assert.deepEqual(read('parse_log_vitest', '✓ adds 2 3', '× fails 12ms', '↓ later [skipped]'), {
    'adds 2': 'PASSED',
    fails: 'FAILED',
    later: 'SKIPPED',
  })
  assert.deepEqual(read('parse_log_gradle_custom', 'T > a PASSED', 'T > b FAILED (1.2s)', '> Task :x FAILED'), {
    'T > a': 'PASSED',
    'T > b': 'FAILED',
  })
})

test('maven: takes the name from the command; java_mvn also reads classes, failures, JUnit and the placeholder', () => {
  const log = [
    '+ mvn test -Dtest=A#b',
    '[INFO] Running com.x.FooTest',
    '[ERROR] com.x.FooTest.bar:12 NullPointerException',
    '[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 1 s - in com.x.BarTest',
    '<testcase name="t" classname="C"><skipped/></testcase>',
    '[INFO] BUILD SUCCESS',
  ].join('\n')
  assert.deepEqual(parse('rebench-v2', 'parse_log_maven', log), [['A#b', 'PASSED']])
  assert.deepEqual(Object.fromEntries(parse('rebench-v2', 'parse_java_mvn', log)), {
    'com.x.FooTest.bar': 'ERROR',
    'com.x.FooTest': 'FAILED',
    'com.x.BarTest': 'PASSED',
    'C t': 'SKIPPED',
    'A#b': 'PASSED',
  })
  assert.deepEqual(parse('rebench-v2', 'parse_java_mvn', 'BUILD FAILURE'), [['---NO TEST NAME FOUND YET---', 'FAILED']])
  assert.deepEqual(parse('rebench-v2', 'parse_java_mvn', 'Running com.x.A'), [['com.x.A', 'PASSED']])
  const long = '1'.repeat(4301)
  const summary = `Tests run: ${long}, Failures: 0, Errors: 0, Skipped: 0`
  assert.throws(() => parse('rebench-v2', 'parse_java_mvn', summary), PythonError)
})
