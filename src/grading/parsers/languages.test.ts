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

test('every name of SWE-rebench-V2 has a parser, and no other name', () => {
  assert.equal(PARSERS_V2.size, 96)
  assert.equal(LOG_PROFILES['rebench-v2'].unported.size, 0)
  for (const name of ['ansi_escape', 'parse_log_', 'parse_log_java', 'parse_log_constructor', '__proto__']) {
    assert.equal(PARSERS_V2.has(name), false, name)
  }
})

test('C and C++: redis, jq, micropython, Google Test, doctest and the four of cpp', () => {
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

test('Ruby: minitest, cucumber, test-unit, rspec and the two of ruby', () => {
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

test('PHP: PHPUnit with its suites, and marks with times', () => {
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

test('JavaScript: runners with trees, marks, TAP and failures alone', () => {
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

test('the JVM: Ant, Maven by modules, JUnit in text, Gradle reports, Scala and Clojure', () => {
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

test('whole reports: what is not well-formed has no results, and the order of the signs is each parser of its own', () => {
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

test('XML is read as strictly as Python reads it', () => {
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

test('Haskell, OCaml and Elixir', () => {
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

test('Dart: events, and lines that come twice', () => {
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

test('Lua, R, Julia, Swift and C#', () => {
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

test('names that would fill the memory are refused: a long suite before each of many tests', () => {
  const suite = `S${'x'.repeat(10_000)} (C)`
  raises('MemoryError', 'parse_log_phpunit', suite, ...Array.from({ length: 500 }, (_, at) => `✔ t${at}`))
  raises('MemoryError', 'parse_log_p5js', '<<a></a>b>'.repeat(100))
})
