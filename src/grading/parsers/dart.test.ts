/** Dart's protocol and its lines, at the places where JSON and Python's own values matter. */
import { test } from 'node:test'
import { expectRaised, expectStatuses } from '../../../test/support/expect-statuses.ts'
import { parseDart, parseDartV2, parseDartV3 } from './dart.ts'

const [PASSED, FAILED, SKIPPED, ERROR] = ['PASSED', 'FAILED', 'SKIPPED', 'ERROR'] as const

/** Values are JSON as written. */
const start = (id: string, name: string): string => `{"test":{"id":${id},"name":${name}},"type":"testStart"}`
const done = (id: string, fields = '"result":"success"'): string => `{"testID":${id},${fields},"type":"testDone"}`

test('events: takes a name and the result of its number, but no loading or hidden ones', () => {
  expectStatuses(parseDart, [
    [
      [
        start('1', '"loading /a_test.dart"'),
        start('2', '"adds"'),
        start('3', '"fails"'),
        start('4', '"breaks"'),
        start('5', '"waits"'),
        start('6', '"hides"'),
        start('7', '"is still loading "'),
        done('1'),
        done('2'),
        '{"testID":2,"result":"failure","type":"error"}',
        done('3', '"result":"failure"'),
        done('4', '"result":"error"'),
        done('5', '"result":"none","skipped":true'),
        done('6', '"result":"success","hidden":true'),
        done('7', '"result":"success","skipped":true,"hidden":false'),
        done('8'),
      ],
      { adds: PASSED, fails: FAILED, breaks: ERROR, waits: SKIPPED, 'is still loading ': PASSED },
    ],
    [[`[${start('1', '"a"')},5,null,"x",[${done('1')}]]`, done('1', '"result":"failure"')], { a: FAILED }],
    [[`[${start('1', '"a"')}`, `${start('1', '"b"')}]`, done('1')], {}],
  ])
})

test('events: ignores a test without a number, name or known result', () => {
  expectStatuses(parseDart, [
    [['{"type":"testStart"}', '{"test":null,"type":"testStart"}', '{"test":5,"type":"testStart"}', done('1')], {}],
    [
      [
        '{"test":{"name":"a"},"type":"testStart"}',
        start('null', '"a"'),
        done('null'),
        '{"type":"testDone","result":"success"}',
      ],
      {},
    ],
    [
      [
        start('1', 'null'),
        start('2', '""'),
        start('3', '{}'),
        start('4', '[]'),
        start('5', '0'),
        '{"test":{"id":6},"type":"testStart"}',
        ...'123456'.split('').map((id) => done(id)),
      ],
      {},
    ],
    [
      [
        start('1', '"a"'),
        done('1', '"result":"toString"'),
        done('1', '"result":["success"]'),
        done('1', '"result":null'),
        done('1', '"skipped":false'),
      ],
      {},
    ],
  ])
  for (const name of ['{"x":1}', '[0]', '5', 'true']) expectRaised('AttributeError', parseDart, start('1', name))
  for (const id of ['[]', '{}', '[1]']) {
    expectRaised('TypeError', parseDart, start(id, '"a"'))
    expectRaised('TypeError', parseDart, done(id))
  }
})

test('flags are true for what Python takes as true', () => {
  const hidden = (value: string): string[] => [start('1', '"a"'), done('1', `"result":"success","hidden":${value}`)]
  for (const value of ['1', '-0.5', '"x"', '[0]', '{"x":0}', 'true', 'NaN', 'Infinity']) {
    expectStatuses(parseDart, [[hidden(value), {}]])
  }
  for (const value of ['0', '0.0', '-0', '""', '[]', '{}', 'false', 'null']) {
    expectStatuses(parseDart, [[hidden(value), { a: PASSED }]])
  }
})

test('numbers of tests are equal when Python finds them equal: by value, true as 1, texts apart', () => {
  const [big, bigger] = ['9007199254740992', '9007199254740993']
  const pair = (first: string, second: string): string[] => [start(first, '"first"'), start(second, '"second"')]
  expectStatuses(parseDart, [
    [[...pair('"1"', '1'), done('"1"')], { first: PASSED }],
    [[...pair('"a"', '"b"'), done('"a"')], { first: PASSED }],
    [[...pair('1', '2'), done('1.0'), done('2e0', '"result":"error"')], { first: PASSED, second: ERROR }],
    [[...pair('true', 'false'), done('1'), done('0', '"result":"error"')], { first: PASSED, second: ERROR }],
    [[...pair('1.5', '1'), done('1.5')], { first: PASSED }],
    [[...pair(big, bigger), done(bigger)], { second: PASSED }],
    [[...pair(bigger, `-${bigger}`), done(bigger)], { first: PASSED }],
    [[...pair(bigger, `-${bigger}`), done(`-${bigger}`)], { second: PASSED }],
    [[...pair('1e21', '1'), done('1000000000000000000000')], { first: PASSED }],
    [[...pair('Infinity', '-Infinity'), done('-Infinity')], { second: PASSED }],
    [[...pair('Infinity', '-Infinity'), done('Infinity')], { first: PASSED }],
    [[...pair('Infinity', 'NaN'), done('NaN')], { second: PASSED }],
    [[...pair('NaN', '1E999'), done('Infinity'), done('NaN', '"result":"error"')], { second: PASSED, first: ERROR }],
    [[`[${start('1E999', '"a"')},${start('NaN', '"b"')},${done('1e400')}]`], { a: PASSED }],
    [[...pair('"12345678901234567"', '12345678901234567'), done('12345678901234567')], { second: PASSED }],
  ])
})

test("words that only Python's JSON has are ignored within texts", () => {
  for (const name of ['NaN', 'say \\"NaN\\" or', '\\\\', 'a\\\\\\"b NaN', '-Infinity \\"', 'x\\ty\\nz\\"Infinity']) {
    const text = JSON.parse(`"${name}"`) as string
    expectStatuses(parseDart, [[[start('NaN', `"${name}"`), done('NaN')], { [text]: PASSED }]])
  }
  expectStatuses(parseDart, [
    [[start('1', '"a"'), done('1', '"x":NaNs,"result":"success"')], {}],
    [[start('1', '"a"'), done('1', '"x":+Infinity,"result":"success"')], {}],
    ...['-NaN', '1NaN', 'NaN1', '5Infinity', '1.NaN', '5-Infinity'].map(
      (written): [string[], Record<string, string>] => [
        [start('1', '"a"'), done('1', `"x":${written},"result":"success"`)],
        {},
      ],
    ),
    [[start('1', '"a"'), '{"x":NaN,"y":"', '{"x":NaN,"y":"\\'], {}],
  ])
})

test('an integer of more than 4300 digits raises only where Python reads it', () => {
  const [most, long] = ['7'.repeat(4300), '7'.repeat(9000)]
  expectRaised('ValueError', parseDart, `${most}7`)
  for (const before of [
    '',
    '{"a":',
    '{"a]":',
    '{"a\\"]{":',
    '{"a\\\\":',
    '{"a\\"b\\"c{":',
    '{"\\"":',
    '["ab[","",',
    '[[],[1],{"a":{}},',
    '[{"a":[1,2]},{},',
    '[1.25,-0.5,1e5,1E+10,2.5e-10,0,-1,true,null,',
    '[{"a":1},[2],"]","}",',
  ]) {
    expectRaised('ValueError', parseDart, `${before}${long}`)
    expectRaised('ValueError', parseDart, `${before}-${long}, and more`)
    expectStatuses(parseDart, [[[`${before}${most}`], {}]])
  }
  for (const text of [
    `[1.${long}]`,
    `[1e${long}]`,
    `[1e-${long}]`,
    `[1E+${long}]`,
    `[1.5e${long}]`,
    `["${long}"]`,
    `["a\\"${long}"]`,
    `[1],${long}`,
    `{"a":1}${long}`,
    `[}${long}`,
    `[1 ${long}`,
    `{${long}:1}`,
  ]) {
    expectStatuses(parseDart, [[[text], {}]])
  }
})

test('lines of packages: a second line of the same name means that it passed', () => {
  const line = (counter: string, path: string, name: string): string => `[pkg_1]: 00:01 +${counter}: ${path}: ${name}`
  expectStatuses(parseDartV2, [
    [
      [
        line('0', '/a/x_test.dart', 'loading /a/x_test.dart'),
        line('0', '/a/x_test.dart', 'adds'),
        line('1', '/a/x_test.dart', 'adds'),
        line('1', '/b/x_test.dart', 'adds'),
        line('٣', '/b/x_test.dart', 'two: words'),
        'All tests passed!',
        line('2', 'x_test.dart', 'relative'),
        '[pkg]: 0:01 +2: /a/x_test.dart: short',
      ],
      { '/a/x_test.dart: adds': PASSED, '/b/x_test.dart: adds': ERROR, '/b/x_test.dart: two: words': ERROR },
    ],
  ])
  expectRaised('ValueError', parseDartV2, line('7'.repeat(4301), '/a.dart', 'b'))
})

test('lines with counters: a failure stays, and a file that does not load is an error of its own', () => {
  expectStatuses(parseDartV3, [
    [
      [
        '00:00 +0: loading /a/x_test.dart',
        '00:01 +0: /a/x_test.dart: adds',
        '00:01 +1: /a/x_test.dart: fails',
        '00:02 +1 -1: /a/x_test.dart: fails [E]',
        '00:02 +1 -1: /a/x_test.dart: fails',
        '00:03 +1 -1: /a/x_test.dart: says [E] and goes on',
        '00:03 +1 -2: loading /b_test.dart [E]',
        '00:04 +1 -2: Some tests failed.',
        'noise [E]',
      ],
      {
        '/a/x_test.dart: adds': PASSED,
        '/a/x_test.dart: fails': FAILED,
        '/a/x_test.dart: says [E] and goes on': FAILED,
        '/b_test.dart': ERROR,
      },
    ],
  ])
})
