/** Reports of tests in logs, as SWE-rebench-V2 finds and reads them. */
import { test } from 'node:test'
import { expectRaised, expectStatuses } from '../../../test/support/expect-statuses.ts'
import { parseCombinedReports, parseDoctest, parseGradlewV1, parseRJunit, parseTestReport } from './xml-reports.ts'

const [PASSED, FAILED, SKIPPED, ERROR] = ['PASSED', 'FAILED', 'SKIPPED', 'ERROR'] as const
const XML = '<?xml version="1.0" encoding="UTF-8"?>'

/** A case of each kind; `C` is the class of all. */
const CASES = [
  '<testcase classname="C" name="passes"><system-out>ok</system-out></testcase>',
  '<testcase classname="C" name="fails"><failure message="1 is not 2"/></testcase>',
  '<testcase classname="C" name="breaks"><error type="E">trace</error></testcase>',
  '<testcase classname="C" name="waits"><skipped/></testcase>',
  '<testcase classname="C" name="both"><skipped/><error/><failure/></testcase>',
  '<testcase classname="C"/>',
  '<testcase name="alone"/>',
]

test('one report: failures win over skips and skips over errors, and a missing name is None', () => {
  expectStatuses(parseTestReport, [
    [
      [XML, '<testsuites><testsuite>', ...CASES, '</testsuite></testsuites>'],
      {
        'C::passes': PASSED,
        'C::fails': FAILED,
        'C::breaks': ERROR,
        'C::waits': SKIPPED,
        'C::both': FAILED,
        'C::None': PASSED,
        'None::alone': PASSED,
      },
    ],
    [['<testcase name="root"/>'], {}],
    [['<testsuite>', ...CASES], {}],
  ])
})

test('a broken report hides complete ones up to its end, and no other', () => {
  const report = (name: string): string => `${XML}<testsuites><testcase name="${name}"/></testsuites>`
  expectStatuses(parseCombinedReports, [
    [[report('a'), 'noise', report('b')], { 'None::a': PASSED, 'None::b': PASSED }],
    [[`${XML}<testsuites>`, report('a'), report('b')], { 'None::b': PASSED }],
    [[report('a'), `${XML}<testsuite><testcase name="b"/></testsuite>`], { 'None::a': PASSED }],
    [['</testsuites>', report('a'), '</testsuites>'], { 'None::a': PASSED }],
  ])
})

test('testthat: reads the first report from its declaration to the end of its suites or of the log', () => {
  const expected = {
    'C::passes': PASSED,
    'C::fails': FAILED,
    'C::breaks': ERROR,
    'C::waits': SKIPPED,
    'C::both': FAILED,
    'C::': PASSED,
    alone: PASSED,
  }
  expectStatuses(parseRJunit, [
    [[XML, '<testsuites><testsuite>', ...CASES, '</testsuite></testsuites>', 'noise'], expected],
    [['noise', `${XML}<suites><testsuite>`, ...CASES, '</testsuite></suites>'], expected],
    [['noise', `${XML}<suites><testsuite>`, ...CASES, '</testsuite></suites>', 'noise'], {}],
    [['noise', '<testsuites><testsuite>', ...CASES, '</testsuite></testsuites>'], {}],
    [[`${XML}<testsuites><group>`, ...CASES, '</group></testsuites>'], {}],
    [[`${XML}<testsuites><testsuite><group>`, ...CASES, '</group></testsuite></testsuites>'], {}],
    [[`${XML}<testsuites><testsuite><testcase/></testsuite></testsuites>`], { '': PASSED }],
  ])
})

test('gradle: reads reports line by line, each with its declaration', () => {
  const expected = {
    'passes (C)': PASSED,
    'fails (C)': FAILED,
    'breaks (C)': ERROR,
    'waits (C)': SKIPPED,
    'both (C)': SKIPPED,
    '': PASSED,
    alone: PASSED,
  }
  expectStatuses(parseGradlewV1, [
    [['noise', XML, '<testsuite>', ...CASES, '  </testsuite> '], expected],
    [[`${XML}<testsuite>`, ...CASES, '</testsuite>', 'noise'], expected],
    [['<?xml version="1.0" broken?>', '<testsuite>', ...CASES, '</testsuite>'], {}],
    [[XML, '<testsuite><testcase', 'name="a"', '/>', '</testsuite>'], { a: PASSED }],
    // An end that does not begin its line ends no report.
    [
      [
        XML,
        '<testsuite><testcase name="a"/>',
        '<system-out>x</system-out></testsuite>',
        XML,
        '<testsuite><testcase name="b"/>',
        '</testsuite>',
      ],
      { b: PASSED },
    ],
    [['<testsuite>', ...CASES, '</testsuite>'], {}],
  ])
})

test('doctest: a case fails with any of its expressions, and other elements do not count', () => {
  const subcase = (name: string, inside: string): string => `<SubCase name="${name}">${inside}</SubCase>`
  const [good, bad] = [
    '<Expression success="true"/>',
    '<Expression success="false"><Original>1 == 2</Original></Expression>',
  ]
  expectStatuses(parseDoctest, [
    [
      [
        '<doctest binary="t"><TestSuite>',
        `<TestCase name="sums">${subcase('small', good)}${subcase('large', good + bad)}${subcase('deep', subcase('er', bad))}`,
        `${subcase('noted', '<Info>x</Info><OverallResultsAsserts failures="0"/>')}</TestCase>`,
        '<TestCase><SubCase/><Other/></TestCase><SubCase name="outside"/>',
        '</TestSuite></doctest>',
        'noise',
      ],
      {
        'sums > small': PASSED,
        'sums > large': FAILED,
        'sums > deep': FAILED,
        'sums > er': FAILED,
        'sums > noted': PASSED,
        'None > None': PASSED,
      },
    ],
    [['no report'], {}],
  ])
  expectRaised('ParseError', parseDoctest, 'noise', '<doctest>', '<TestCase name="a">', subcase('b', good))
  expectRaised('ParseError', parseDoctest, `<doctest><TestCase>${subcase('b', good)}</doctest>`)
})

test('doctest: reads nested cases up to sixteen times the elements of the report', () => {
  const depth = 63
  // All 126 elements of the first: the root, the cases, what lies in them, and 61 beside them. The cases see 63 * 64 / 2 of them.
  const report = (others: number): string =>
    `<doctest>${'<TestCase name="c">'.repeat(depth)}<SubCase name="s"/>${'</TestCase>'.repeat(depth)}${'<x/>'.repeat(others)}</doctest>`
  expectStatuses(parseDoctest, [[[report(61)], { 'c > s': PASSED }]])
  expectRaised('MemoryError', parseDoctest, report(60))
})
