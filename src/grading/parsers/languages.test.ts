/** One log for each parser that only SWE-rebench-V2 has, as its runner prints it, with the places at which upstream is odd. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LOG_PROFILES } from '../log-profiles.ts'
import { PARSERS_V2 } from './names.ts'
import { PythonError } from './python-text.ts'

function read(name: string, ...lines: string[]): Record<string, string> {
  const parse = PARSERS_V2.get(name)
  assert.ok(parse, name)
  return Object.fromEntries(parse(lines.join('\n')))
}

const raises = (type: string, name: string, ...lines: string[]): void =>
  assert.throws(
    () => read(name, ...lines),
    (error) => error instanceof PythonError && error.message.startsWith(`${type}:`),
  )

const [PASSED, FAILED, SKIPPED, ERROR] = ['PASSED', 'FAILED', 'SKIPPED', 'ERROR'] as const

test('exactly the parser names of SWE-rebench-V2 have a parser', () => {
  assert.equal(PARSERS_V2.size, 96)
  assert.equal(LOG_PROFILES['rebench-v2'].unported.size, 0)
  for (const name of ['ansi_escape', 'parse_log_', 'parse_log_java', 'parse_log_constructor', '__proto__']) {
    assert.equal(PARSERS_V2.has(name), false, name)
  }
})

/** What it shows, the parser, its lines, and what upstream's parser finds in them. */
const CORNERS: [string, string, string[], Record<string, string>][] = [
  [
    'a failure keeps its place when the test passes later, and takes the place of an earlier pass',
    'parse_log_cpp',
    ['a::t FAILED', 'b::t PASSED', 'a::u PASSED', 'b::u FAILED'],
    { t: FAILED, u: FAILED },
  ],
  [
    'three colons are two and one of the name',
    'parse_log_cpp',
    ['a:::t PASSED', 'a::::u FAILED'],
    { ':t': PASSED, u: FAILED },
  ],
  [
    'colons count before the status only',
    'parse_log_cpp',
    ['a.cc::t PASSED x::y', '::u PASSED'],
    { t: PASSED, u: PASSED },
  ],
  [
    'the heading of the failures has 35 signs on its right at least',
    'parse_log_cpp',
    [`${'='.repeat(35)} FAILURES ${'='.repeat(34)}`, 'a.py::t PASSED'],
    { t: PASSED },
  ],
  [
    'the heading of the failures may have more signs on its right; lines that share a blank are no heading',
    'parse_log_cpp',
    [
      `${'='.repeat(35)} FAILURES ${'='.repeat(36)}`,
      'a.py::t PASSED',
      `${'_'.repeat(27)} ${'_'.repeat(27)}`,
      `${'_'.repeat(27)} u ${'_'.repeat(27)}`,
    ],
    { u: FAILED },
  ],
  [
    'words are compared as Python compares them: ß is SS in capitals, and the sign of Kelvin is a k',
    'parse_log_cpp_v3',
    ['a... paßed', 'b... o\u212A', 'c... done'],
    { a: PASSED, b: PASSED, c: ERROR },
  ],
  [
    'case is ignored, also where only blanks are left for a name',
    'parse_log_cpp_v4',
    ['1/3 TEST #1: a .... PASSED', '2/3 test #2:   .. failed', '3/3 Test #3: c ... skipped'],
    { a: PASSED, '': FAILED, c: SKIPPED },
  ],
  ['a name may be empty', 'parse_log_googletest', ['[ OK ]  (1 ms)'], { '': PASSED }],
  ['an equals sign after the outcome is neither of the two', 'parse_log_minitest', ['x. y = z. F='], { x: FAILED }],
  ['the mark belongs to a name that would be empty', 'parse_log_ruby_unit', ['test: : .', ': .'], { 'test: ': PASSED }],
  [
    'the worst result stays, and of two that are equally good the first',
    'parse_log_ruby_v1',
    [
      'test_a ERROR',
      'test_a FAIL',
      'test_b SKIP',
      'test_b PASS',
      'test_c FAIL',
      'test_c ERROR',
      'test_d PASS',
      'test_d FAIL',
    ],
    { test_a: ERROR, test_b: SKIPPED, test_c: ERROR, test_d: FAILED },
  ],
  ['a skip has its letter', 'parse_log_ruby_v2', ['A#b = 1 s = S'], { 'A#b': SKIPPED }],
  [
    'a line that goes on behind its bracket is no suite, and a time alone is an empty name',
    'parse_log_phpunit',
    ['Calc (Tests\\Calc) runs', '✔ adds', '✔ [1.2 ms]'],
    { 'None > adds': PASSED, 'None > ': PASSED },
  ],
  [
    'totals name no test, also where they count skips; a time has a small s',
    'parse_log_php_v1',
    ['✓ adds  1S', '  Tests:    3 skipped, 2 passed (5 assertions)', '  Duration: 1 skipped', '___ skipped'],
    { 'adds  1S': PASSED },
  ],
  ['an unopened bracket belongs to the name', 'parse_log_npx', ['  1) foo)'], { 'foo)': FAILED }],
  [
    'a class that is a dot alone has no name',
    'parse_java_mvn',
    ['Tests run: 1, Failures: 0, Errors: 0, Skipped: 0 - in .'],
    {},
  ],
  [
    'a class with a skipped test is skipped',
    'parse_java_mvn',
    ['Tests run: 1, Failures: 0, Errors: 0, Skipped: 1 - in A'],
    { A: SKIPPED },
  ],
  [
    'an open element is read for 4,096 characters',
    'parse_log_junit',
    [`<testcase name="a">\uFFFF${'.'.repeat(4087)}<failure`],
    { a: FAILED },
  ],
  [
    'an open element is read for no character more, of which the last of two bytes counts as one',
    'parse_log_junit',
    [`<testcase name="a">\uFFFF${'.'.repeat(4088)}<failure`],
    { a: PASSED },
  ],
  ['blanks part namespaces behind :only', 'parse_log_lein', ['lein test :only e.f g/h'], { 'e.f g': PASSED }],
  [
    'the time closes the line, and the first failure or the last one stays',
    'parse_log_scala',
    [
      '[info] - a *** FAILED *** (1 ms)',
      '[info] - a (1 ms)',
      '[info] - b (1 ms)',
      '[info] - b *** FAILED *** (1 ms)',
      '[info] - c (1 m',
      '[info] - d () (1 ms)',
      '[info] - e (1 ms) later',
    ],
    { a: FAILED, b: FAILED, 'd ()': PASSED },
  ],
  [
    'blanks inside of printed colours belong to the name',
    'parse_log_scala_v2',
    ['x [0m[31m  a[0m [90m1s[0m'],
    { '  a': FAILED },
  ],
  [
    'other endings have statuses of their own, and a time alone is an empty name',
    'parse_log_scala_v3',
    [
      '[info] - a *** ABORTED ***',
      '[info] - b *** IGNORED ***',
      '[info] - c *** CANCELED ***',
      '[info] - d *** CANCELLED ***',
      '[info] - e *** PENDING ***',
      '[info] - (2 seconds)',
    ],
    { a: ERROR, b: SKIPPED, c: SKIPPED, d: SKIPPED, e: SKIPPED, '': PASSED },
  ],
  ['a colon may begin a name behind blanks', 'parse_log_haskell', ['  : OK: FAIL'], { ': OK': FAILED }],
  [
    'a bracket without a blank before it stays in the name of a checked test',
    'parse_log_haskell',
    ['✓ f(x)', '✓ g (1 test)'],
    { 'f(x)': PASSED, g: PASSED },
  ],
  [
    'statuses behind a colon, brackets inside of a name, noise, and results that come twice',
    'parse_log_haskell',
    [
      'a: SKIP',
      'b: PENDING',
      '✓ reads (all) parts',
      '✓ calls () (2 ms)',
      'Linking dist/build/spec: OK',
      '✗ c',
      '✓ c',
      '✓ d',
      '✗ d',
    ],
    { a: SKIPPED, b: SKIPPED, 'reads (all) parts': PASSED, calls: PASSED, c: FAILED, d: FAILED },
  ],
  ['the failures may begin the log', 'parse_log_haskell_v2', ['Failures:', '  1) A.B, fails'], { 'A.B.fails': FAILED }],
  [
    'the tree begins behind the heading, whatever its first line is',
    'parse_log_haskell_v2',
    ['Test suite x: RUNNING...', 'Main', '  adds'],
    { 'Main.adds': PASSED },
  ],
  [
    'without a heading the tree begins at the first line that has a dot and is no noise',
    'parse_log_haskell_v2',
    ['Resolving dependencies...', '', 'A.B', '  adds'],
    { 'A.B.adds': PASSED },
  ],
  [
    'levels without a name are left out',
    'parse_log_haskell_v2',
    ['Test suite x: RUNNING...', '    deep', '  flat'],
    { deep: PASSED, flat: PASSED },
  ],
  [
    'each word has its status, and a failure stays',
    'parse_log_ocaml',
    [
      '[PASS] s 0 a',
      '[FAILED] s 1 b',
      '[SKIP] s 2 c',
      '[SKIPPED] s 3 d',
      '[FAIL] s 4 e',
      '[OK] s 4 e',
      '[OK] s 5 f',
      '[FAIL] s 5 f',
    ],
    {
      's 0 a': PASSED,
      's 1 b': FAILED,
      's 2 c': SKIPPED,
      's 3 d': SKIPPED,
      's 4 e': FAILED,
      's 5 f': FAILED,
    },
  ],
  [
    'an empty line is no output, and a path may end at its first part',
    'parse_log_ocaml_v2',
    ['Running[1]: (a)', 'Output[1]:', '', 'Running[2]: (./ t.exe)', 'Output[2]:', 'x'],
    { 't.exe': PASSED },
  ],
  [
    'a bar needs something behind it, or the name is a blank before an earlier one',
    'parse_log_julia',
    ['Test Summary: | Pass Total', '  | 1 2 |', '  a |', '|'],
    { '': ERROR },
  ],
  [
    'one blank parts a bar from a name, a name may begin with a bar, and a row of one name is its numbers',
    'parse_log_julia',
    [
      'Test Summary: | Pass  Fail  Error  Total  Time',
      '  | a | 1 1',
      ' | b | 1 1',
      '  |           2  2',
      '12 of 3 3',
      '  x 1 1',
      '| 1 1',
      ' | 1 1',
    ],
    { '| a': PASSED, '| b': PASSED, '': ERROR },
  ],
  [
    'four numbers are passes, failures, errors and their sum',
    'parse_log_julia',
    ['Test Summary: | Pass  Fail  Error  Total  Time', 'a | 5 1 0 6', 'b | 5 0 1 6', 'c | 5 0 0 5', 'd | 5 1 1 7'],
    { a: FAILED, b: ERROR, c: PASSED, d: ERROR },
  ],
  [
    'what is not named a failure is an error',
    'parse_log_julia',
    ['Test Summary: | Pass  Broken  Total  Time', 'a | 1 1 2'],
    { a: ERROR },
  ],
  [
    'a failure stays, and a time may be all that there is for a name',
    'parse_log_csharp',
    ['  Failed a [1 ms]', '  Passed a [1 ms]', '  Skipped   [1 ms]'],
    { a: FAILED, '[1 ms]': SKIPPED },
  ],
  [
    'a failure counts in its section only, and a time alone is an empty name',
    'parse_log_r',
    ['✔ | 1 | a', '✔ | 1 | [1s]', 'Failure (x): b'],
    { a: PASSED, '': PASSED },
  ],
  [
    'the section of failures may begin the log',
    'parse_log_r',
    ['── Failed tests ──', 'Failure (x): a', 'Error (y): b [1.2s]'],
    { a: FAILED, b: ERROR },
  ],
  [
    'each word has its status',
    'parse_log_r_v2',
    ['NOTE', 'NOTES', 'WARNING', 'WARNINGS', 'ERROR', 'ERRORS', 'FAIL', 'FAILED', 'SKIPPED'].map(
      (word) => `* checking ${word} ... ${word}`,
    ),
    {
      NOTE: PASSED,
      NOTES: PASSED,
      WARNING: FAILED,
      WARNINGS: FAILED,
      ERROR,
      ERRORS: ERROR,
      FAIL: FAILED,
      FAILED,
      SKIPPED,
    },
  ],
  [
    'a check without a name is none',
    'parse_log_r_v2',
    ['* checking  ... OK', '* checking ... OK', '* checking  ...', 'OK', '* checking ...', 'OK'],
    {},
  ],
]

for (const [title, parser, lines, expected] of CORNERS) {
  test(`${parser}: ${title}`, () => assert.deepEqual(read(parser, ...lines), expected))
}

test('C and C++: reads redis, jq, micropython, Google Test, doctest and the four of cpp', () => {
  assert.deepEqual(read('parse_log_redis', '[ok]: GET (12 ms)', '[err]: SET in tests/x.tcl', ' [ignore]: in a in b'), {
    GET: PASSED,
    SET: FAILED,
    'in a in b': SKIPPED,
  })
  assert.deepEqual(read('parse_log_jq', 'PASS: a', 'FAIL: b: c', 'PASS:d'), { a: PASSED, 'b: c': FAILED })
  assert.deepEqual(read('parse_log_micropython_test', 'pass  a.py', 'skip b', 'FAIL c'), {
    'a.py': PASSED,
    b: SKIPPED,
    c: FAILED,
  })
  assert.deepEqual(
    read('parse_log_googletest', '[       OK ] A.b (1 ms)', '[  FAILED  ] A.c (2 ms)', '[  FAILED  ] A.d'),
    {
      'A.b': PASSED,
      'A.c': FAILED,
    },
  )
  const report = (success: string, end: string): string =>
    `x <doctest><TestCase name="a"><SubCase name="b"><Expression success="${success}"/></SubCase><SubCase/></TestCase>${end}`
  assert.deepEqual(read('parse_log_doctest', report('false', '</doctest> y')), { 'a > b': FAILED, 'a > None': PASSED })
  raises('ParseError', 'parse_log_doctest', report('true', ''))
  assert.deepEqual(
    read(
      'parse_log_cpp',
      'a.py::t PASSED [ 1%]',
      'a.py::u ERROR',
      `${'='.repeat(35)} FAILURES ${'='.repeat(35)}`,
      `${'_'.repeat(27)} t ${'_'.repeat(27)}`,
      'v PASSED',
    ),
    { t: FAILED, u: ERROR },
  )
  assert.deepEqual(read('parse_log_cpp_v2', 'Test a    passed', 'Test a failed', 'Test  skipped'), {
    a: FAILED,
    '': SKIPPED,
  })
  assert.deepEqual(
    read(
      'parse_log_cpp_v3',
      '[1/9] File: x... OK',
      'AES ran 9 tests in 1.5 msec 1 test FAILED',
      'a... weird',
      'not skipped',
    ),
    { 'File: x': PASSED, 'AES ran 9 tests 1 test FAILED': FAILED, a: ERROR, 'not skipped': SKIPPED },
  )
  assert.deepEqual(read('parse_log_cpp_v4', ' 1/2 Test #1: a ....   Passed  1 sec', '2/2 Test #2: b .. TIMEOUT'), {
    a: PASSED,
    b: FAILED,
  })
})

test('Ruby: reads minitest, cucumber, test-unit, rspec and the two of ruby', () => {
  assert.deepEqual(read('parse_log_minitest', 'A#b. = 0.1 s = .', 'A#c. = 0.2 s = F'), { 'A#b': PASSED, 'A#c': FAILED })
  assert.deepEqual(read('parse_log_cucumber', 'a ....', 'b ..F', 'c .'), { a: PASSED, b: FAILED })
  assert.deepEqual(read('parse_log_ruby_unit', 'test: a:  .: (0.1)', 'b: F: x', 'c: O'), {
    a: PASSED,
    b: FAILED,
    c: SKIPPED,
  })
  assert.deepEqual(read('parse_log_rspec_transformed_json', 'a - passed', 'b - failed', 'c - pending'), {
    a: PASSED,
    b: FAILED,
  })
  assert.deepEqual(read('parse_log_ruby_v1', 'SuiteA', '  test_a  PASS (0.02s)', '  test_a  ERROR', '  test  PASS'), {
    'SuiteA::test_a': ERROR,
    'SuiteA::test': PASSED,
  })
  assert.deepEqual(read('parse_log_ruby_v2', 'A#b = 5.30 s = .', 'A#c = 1 s = E'), { 'A#b': PASSED, 'A#c': FAILED })
})

test('PHP: reads PHPUnit with its suites, and marks with times', () => {
  assert.deepEqual(read('parse_log_phpunit', ' ✔ before', 'Calc (Tests\\Calc)', ' ✔ adds [1.2 ms]', ' ↩ later'), {
    'None > before': PASSED,
    'Calc > adds': PASSED,
    'Calc > later': SKIPPED,
  })
  assert.deepEqual(
    read(
      'parse_log_php_v1',
      'FAIL  Tests\\Foo',
      '  ✓ adds   0.03s',
      '  ⨯ fails  0.1s',
      '  - later',
      'x    3s',
      'a (SKIPPED)',
      'Tests:  3',
    ),
    { 'Tests\\Foo': FAILED, adds: PASSED, fails: FAILED, later: SKIPPED, 'a (SKIPPED)': SKIPPED },
  )
})

test('JavaScript: reads runners with trees, marks, TAP and failures only', () => {
  const jest = '+ ./node_modules/.bin/jest x'
  assert.deepEqual(
    read(
      'parse_log_calypso',
      '  ✓ before',
      jest,
      '  a',
      '    b',
      '      ✓ c (3ms)',
      '    ✕ d',
      'Test Suites: 1',
      '  ✓ e',
    ),
    {
      'a - b - c': PASSED,
      'a - b - d': FAILED,
    },
  )
  raises('ValueError', 'parse_log_calypso', jest, '✓ at the margin')
  assert.deepEqual(read('parse_log_chart_js', 'Chrome 1.2 (Linux) adds FAILED', 'Chrome 1.2 (Linux) b SUCCESS'), {
    'adds ': FAILED,
  })
  assert.deepEqual(read('parse_log_marked', '1) a', ' 2) b'), { a: FAILED })
  assert.deepEqual(
    read(
      'parse_log_p5js',
      '  1) suite',
      '       adds:',
      '{',
      '  2) not this:',
      '}',
      '<a>',
      '  3) nor:',
      '</a>',
      '  4) a',
      ' b:',
    ),
    { 'suite:adds': FAILED },
  )
  assert.deepEqual(read('parse_log_react_pdf', 'PASS a.js (1.2 s)', 'FAIL b.js'), { 'a.js': PASSED, 'b.js': FAILED })
  assert.deepEqual(read('parse_log_jest_json', '[PASSED] a', '[FAILED] b'), { a: PASSED, b: FAILED })
  assert.deepEqual(
    read(
      'parse_log_karma',
      '  ✔ no',
      'Starting browser',
      '  suite',
      '    ✔ a',
      '    sub',
      '      ✖ b',
      'SUMMARY:',
      '✔ c',
    ),
    {
      'suite > a': PASSED,
      'suite > sub > b': FAILED,
    },
  )
  raises('IndexError', 'parse_log_karma', 'Starting browser', '    a', '   b', '  c')
  assert.deepEqual(read('parse_log_tap', 'ok 1 - a', 'not ok 2 b'), { '- a': PASSED, b: FAILED })
  assert.deepEqual(read('parse_log_js', '✔ a (53ms)', '1) b:', '[W] 2) c', '- d', '3) e'), {
    a: PASSED,
    b: FAILED,
    c: FAILED,
    d: SKIPPED,
  })
  assert.deepEqual(read('parse_log_js_2', '✔ a3s', '1) b', '- 12ms'), { a: PASSED, b: FAILED })
  assert.deepEqual(read('parse_log_js_3', 'ok 1 - suite {', 'not ok 1 - a', 'ok 2 - b # SKIP', '}', 'ok 2 - c'), {
    suite: PASSED,
    'suite :: a': FAILED,
    'suite :: b': PASSED,
    c: PASSED,
  })
  assert.deepEqual(read('parse_log_js_4', '✓ [p]: a (1ms)', '✖ b', 'c [skipped]', '○ d'), {
    a: PASSED,
    b: FAILED,
    c: SKIPPED,
    d: SKIPPED,
  })
  assert.deepEqual(read('parse_log_npx', '  ✔ a (12ms)', '  1) b (mod)'), { a: PASSED, b: FAILED })
})

test('the JVM: reads Ant, Maven by modules, JUnit in text, Gradle reports, Scala and Clojure', () => {
  assert.deepEqual(read('parse_log_ant', '[junit] [PASS] a', '[junit] [ERR] b'), { a: PASSED, b: FAILED })
  assert.deepEqual(
    read(
      'parse_log_java_mvn_v2',
      '[INFO] Core .... SUCCESS [ 1 s]',
      'Tests run: 2, Failures: 0, Errors: 0, Skipped: ٢',
    ),
    {
      Core: PASSED,
      __suite__: SKIPPED,
    },
  )
  assert.deepEqual(
    read(
      'parse_log_kotlin_junit',
      'Running A',
      'Tests run: 2, Failures: 0, Errors: 1, Skipped: 0',
      'Tests run: 1, Failures: 0, Errors: 0, Skipped: 0',
    ),
    { A: FAILED },
  )
  assert.deepEqual(read('parse_log_sbt', 'x<testcase classname="C" name="t"/>y'), { 'C t': PASSED })
  assert.deepEqual(
    read('parse_log_scala', '[info] - a (1 ms)', '[info] - b *** FAILED *** (2 ms)', '[info] - c !!! IGNORED !!!'),
    {
      a: PASSED,
      b: FAILED,
      c: SKIPPED,
    },
  )
  assert.deepEqual(read('parse_log_scala_v2', '[32m  + [0m[32ma[0m [90m0.1s[0m', '  x b 2ms'), { a: PASSED, b: FAILED })
  assert.deepEqual(
    read(
      'parse_log_scala_v3',
      '[info] Suite',
      '[info] - a (2 seconds)',
      '[info] - b *** FAILED ***',
      '[info] - c *** ODD ***',
    ),
    {
      'Suite: a': PASSED,
      'Suite: b': FAILED,
      'Suite: c': 'ODD',
    },
  )
  assert.deepEqual(read('parse_log_lein', 'lein test a.b c.d', 'FAIL in (x)', 'lein test :only e.f/g'), {
    'a.b': PASSED,
    'c.d': FAILED,
    'e.f': PASSED,
  })
})

const REPORT = [
  '<?xml version="1.0" encoding="UTF-8"?>',
  '<testsuites><testsuite name="s">',
  '<testcase classname="C" name="a &lt; b"/>',
  '<testcase name="b"><failure>x</failure></testcase>',
  '<testcase classname="C" name="c"><skipped/><error/></testcase>',
  '</testsuite></testsuites>',
]

test('a malformed report has no results, and each parser has its own order of signs', () => {
  const named = { 'C::a < b': PASSED, 'None::b': FAILED, 'C::c': SKIPPED }
  assert.deepEqual(read('parse_test_report', ...REPORT), named)
  assert.deepEqual(read('parse_test_report', ...REPORT, 'x'), {})
  assert.deepEqual(read('parse_combined_test_reports', 'noise', ...REPORT, '<?xml broken', ...REPORT), named)
  assert.deepEqual(read('parse_log_r_junit', 'noise', ...REPORT, 'noise'), {
    'C::a < b': PASSED,
    b: FAILED,
    'C::c': ERROR,
  })
  const suite = ['<?xml version="1.0"?>', '<testsuite>', ...REPORT.slice(2, 5), '</testsuite>']
  assert.deepEqual(read('parse_log_gradlew_v1', 'noise', ...suite, 'noise'), {
    'a < b (C)': PASSED,
    b: FAILED,
    'c (C)': SKIPPED,
  })
})

test('reads XML as strictly as Python', () => {
  const isRead = (text: string): boolean => read('parse_test_report', text)['None::t'] !== undefined
  const t = '<testcase name="t"/>'
  for (const good of [
    `<a>${t}</a>`,
    `\uFEFF<?xml version='1.0' standalone="no" ?>\n<!-- - --><a b='<!' c=">">${t}</a ><?p?>`.replace("b='<!'", "b='!'"),
    `<a xmlns:x="u" x:b="1" b="1"><![CDATA[<&]]>&#x1F600;${t}<x:y/></a>`,
    `<!DOCTYPE a SYSTEM "a.dtd"><a>${t}</a>`,
    `<a xmlns="u"><b xmlns="">${t}</b></a>`,
  ]) {
    assert.ok(isRead(good), good)
  }
  for (const bad of [
    `<a>${t}`,
    `<a>${t}</b>`,
    `<a>${t}</a><a/>`,
    ` <?xml version="1.0"?><a>${t}</a>`,
    `<?xml version="1.0" standalone="maybe"?><a>${t}</a>`,
    `<a b=1>${t}</a>`,
    `<a b="<">${t}</a>`,
    `<a b="1" b="2">${t}</a>`,
    `<a xmlns:x="u" xmlns:y="u" x:b="1" y:b="2">${t}</a>`,
    `<a x:b="1">${t}</a>`,
    `<a>&nbsp;${t}</a>`,
    `<a>&#0;${t}</a>`,
    `<a>]]>${t}</a>`,
    `<a>\u0001${t}</a>`,
    `<a><!-- -- -->${t}</a>`,
    `<a b="1"c="2">${t}</a>`,
    `<a>${t}&</a>`,
    `<a><?xml version="1.0"?>${t}</a>`,
    `<!DOCTYPE a [<!ENTITY e "x">]><a>&e;${t}</a>`,
  ]) {
    assert.ok(!isRead(bad), bad)
  }
})

test('reads Haskell, OCaml and Elixir', () => {
  assert.deepEqual(
    read('parse_log_haskell', '  a.b: OK (0.1s)', ' : FAIL', '  ✓ c (1 ms)', '  d [✗]', '### Error in: e', '1) f'),
    {
      'a.b': PASSED,
      '': FAILED,
      c: PASSED,
      d: FAILED,
      e: ERROR,
      f: FAILED,
    },
  )
  assert.deepEqual(
    read(
      'parse_log_haskell_v2',
      'Test suite x: RUNNING...',
      'A.B',
      '  adds',
      '  fails FAILED [1]',
      '  g',
      '    h # PENDING: x',
      'Failures:',
      '  1) A.B, other',
    ),
    { 'A.B.adds': PASSED, 'A.B.fails': FAILED, 'A.B.g.h #': SKIPPED, 'A.B.other': FAILED },
  )
  assert.deepEqual(read('parse_log_ocaml', '[OK]    suite   0   adds', '[WHAT]  suite 1 b'), {
    'suite 0 adds': PASSED,
    'suite 1 b': ERROR,
  })
  assert.deepEqual(read('parse_log_ocaml_v2', 'Running[1]: (cd a && ./b/t.exe -x)', 'Output[01]:', 'fatal', 'OK'), {
    't.exe': FAILED,
  })
  // A program that says nothing about its result has one when all have ended.
  const words = ['Running[1]: (a)', 'Running[2]: (b)', 'Output[1]:', 'x', 'Output[2]:', 'OK']
  assert.deepEqual(Object.entries(read('parse_log_ocaml_v2', ...words)), [
    ['b', PASSED],
    ['a', PASSED],
  ])
  assert.deepEqual(read('parse_log_ocaml_v3', '[ok] a  b', '[Ko] a b', '[note] c'), { 'a b': FAILED })
  assert.deepEqual(read('parse_log_ocaml_v4', 'PASSED a b  rest', '\u001B[31mERROR\u001B[0m c'), {
    'a b': PASSED,
    c: ERROR,
  })
  assert.deepEqual(
    read('parse_log_elixir', '* test a (1.2ms) [L#4]', '* test b (skipped) [L#5]', '1) test a (Mod)', '* test c [L#6]'),
    {
      a: FAILED,
      b: SKIPPED,
      c: PASSED,
    },
  )
})

test('Dart: reads events, and lines that occur twice', () => {
  const start = (id: string, name: string): string => `{"type":"testStart","test":{"id":${id},"name":${name}}}`
  const done = (id: string, result: string): string => `{"type":"testDone","testID":${id},"result":"${result}"}`
  assert.deepEqual(
    read(
      'parse_log_dart',
      'x',
      start('1', '"a"'),
      start('2', '"loading b"'),
      done('1.0', 'success'),
      `[${start('3', '"c"')},${done('3', 'error')}]`,
    ),
    { a: PASSED, c: ERROR },
  )
  const [big, bigger] = ['9007199254740992', '9007199254740993']
  assert.deepEqual(read('parse_log_dart', start(big, '"a"'), start(bigger, '"b"'), done(big, 'success')), { a: PASSED })
  assert.deepEqual(read('parse_log_dart', start('NaN', '"NaN"'), done('NaN', 'failure')), { NaN: FAILED })
  raises('AttributeError', 'parse_log_dart', start('1', '5'))
  raises('TypeError', 'parse_log_dart', start('[]', '"a"'))
  // Python meets a number that is too long for it before it sees that the line is no JSON, or that a key comes again.
  const long = '7'.repeat(4301)
  for (const text of [`{"a":${long}`, `{"a":${long},"a":1}`, `[1,{"b":[-${long}x`, `[NaN,${long}.x]`, `-${long}`]) {
    raises('ValueError', 'parse_log_dart', text)
  }
  for (const text of [
    `["a",1 ${long}]`,
    `{x:${long}}`,
    `["${long}`,
    `[${long}.5]`,
    `[1.${long}, 1e${long}]`,
    `[0${long}]`,
  ]) {
    assert.deepEqual(read('parse_log_dart', text), {}, text.slice(0, 9))
  }
  const line = (counter: number, name: string): string => `[p]: 00:01 +${counter}: /a_test.dart: ${name}`
  assert.deepEqual(read('parse_log_dart_v2', line(1, 'a'), line(2, 'a'), line(2, 'b')), {
    '/a_test.dart: a': PASSED,
    '/a_test.dart: b': ERROR,
  })
  assert.deepEqual(
    read(
      'parse_log_dart_v3',
      '00:01 +1: /a.dart: b',
      '00:01 +1 -1: /a.dart: c [E]',
      '00:01 +1 -2: loading /d.dart [E]',
    ),
    {
      '/a.dart: b': PASSED,
      '/a.dart: c': FAILED,
      '/d.dart': ERROR,
    },
  )
})

test('reads Lua, R, Julia, Swift and C#', () => {
  assert.deepEqual(
    read('parse_lue_nvim', 'Success\t||\ta', '\u001B[31mFail\u001B[0m || a', 'SKIPPED || b', 'Success: 1'),
    { a: FAILED, b: SKIPPED },
  )
  assert.deepEqual(
    read(
      'parse_log_r',
      '✔ | 60 | a [1.2s]',
      '── Failed tests ──',
      "Error ('x.R:1:2'): b",
      '[ FAIL 1 ]',
      'Failure (x): c',
    ),
    { a: PASSED, b: ERROR },
  )
  assert.deepEqual(
    read(
      'parse_log_r_v2',
      '* checking a ... OK',
      '* checking b ...',
      'noise',
      'WARNING!',
      '* checking c ... ODD',
      '* checking d ...',
    ),
    {
      a: PASSED,
      b: FAILED,
      c: PASSED,
      d: PASSED,
    },
  )
  raises('IndexError', 'parse_log_r_v2', '* checking a ...', '...')
  const header = 'Test Summary: | Pass  Fail  Total  Time'
  assert.deepEqual(
    read('parse_log_julia', 'a | 1 1', header, '  b |    2      2  0.1s', 'c | 1 1 2', 'd |             2  2'),
    { b: PASSED, c: FAILED, d: ERROR },
  )
  raises('ValueError', 'parse_log_julia', header, 'a | ² 2')
  raises('ValueError', 'parse_log_julia', header, 'a | 1 0 ²')
  assert.deepEqual(
    read('parse_log_swift', "Test Case 'A.b' passed (0.1 seconds)", "Test Case 'A.c' failed (1 seconds)"),
    { 'A.b': PASSED, 'A.c': FAILED },
  )
  assert.deepEqual(
    read(
      'parse_log_csharp',
      '  Passed a [1 ms]',
      '[xUnit.net 00:00:01.2]     b [FAIL]',
      '  Skipped c',
      '  Skipped d [1 ms]',
    ),
    {
      a: PASSED,
      b: FAILED,
      c: SKIPPED,
      d: SKIPPED,
    },
  )
})

test('refuses names that would fill the memory: a long suite before each of many tests', () => {
  const suite = `S${'x'.repeat(10_000)} (C)`
  raises('MemoryError', 'parse_log_phpunit', suite, ...Array.from({ length: 500 }, (_, at) => `✔ t${at}`))
  raises('MemoryError', 'parse_log_p5js', '<<a></a>b>'.repeat(100))
  // 1,100 names of 1,216 characters are 64 times the log's 4,516 and a million more, to the character.
  const names = (count: number): string[] => [`S${'x'.repeat(1211)} (C)`, ...Array.from({ length: count }, () => '✔t')]
  assert.deepEqual(read('parse_log_phpunit', ...names(1100)), { [`S${'x'.repeat(1211)} > t`]: PASSED })
  raises('MemoryError', 'parse_log_phpunit', ...names(1101))
})
