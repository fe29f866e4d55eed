import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type GradedLog, gradeLog, type GradeLogInput } from './grade-log.ts'
import { hasParser, LOG_PROFILES, type LogProfileName } from './log-profiles.ts'

const START = '>>>>> Start Test Output'
const END = '>>>>> End Test Output'
const MARKED = ['swebench-4.1', 'swebench-5', 'fork-4.0.3'] as const
const EMPTY = { failToPass: [], passToPass: [] }

interface Input extends Partial<Pick<GradeLogInput, 'parser' | 'tests' | 'evalType'>> {
  profile: LogProfileName
  log: string | Uint8Array
}

/** Parser and lists of most tests: pytest's, and one test that should begin to pass. */
function grade({
  profile,
  log,
  parser,
  tests = { failToPass: ['a'], passToPass: [] },
  evalType = 'pass_and_fail',
}: Input): GradedLog {
  const result = gradeLog({
    profile: LOG_PROFILES[profile],
    parser: parser ?? 'parse_log_pytest',
    log: typeof log === 'string' ? new TextEncoder().encode(log) : log,
    tests,
    evalType,
  })
  assert.equal(result.kind, 'graded', JSON.stringify(result))
  return result
}

function refusal(input: Input): string {
  const { profile, log, parser = 'parse_log_pytest', tests = EMPTY } = input
  const bytes = typeof log === 'string' ? new TextEncoder().encode(log) : log
  const result = gradeLog({ profile: LOG_PROFILES[profile], parser, log: bytes, tests })
  assert.equal(result.kind, 'refused')
  return result.kind === 'refused' ? `${result.reason}: ${result.message}` : ''
}

const marked = (...lines: string[]): string => ['+ x', START, ...lines, END, ''].join('\n')

test('the parser reads the whole log without lists, with or without markers', () => {
  for (const profile of [...MARKED, 'rebench-v2'] as const) {
    const graded = grade({ profile, log: `PASSED a\n${START}\r\nFAILED b (1 ms)\rPASSED c`, tests: null })
    assert.deepEqual([...graded.statuses.keys()], ['a', 'b', 'c'])
    assert.deepEqual([graded.isFound, graded.resolved, graded.tests], [true, null, null])
  }
})

test('only text between the markers counts, up to a second start', () => {
  for (const profile of MARKED) {
    const log = `PASSED a\n${START}\nFAILED a\n${START}\nPASSED a\n${END}`
    assert.deepEqual([...grade({ profile, log }).statuses], [['a', 'FAILED']])
  }
})

test('a void log and one without a marker give not-found instead of an error', () => {
  for (const profile of MARKED) {
    for (const log of [`${START}\nPASSED a`, `PASSED a\n${END}`, '', `${marked('PASSED a')}>>>>> Tests Errored`]) {
      const graded = grade({ profile, log, tests: EMPTY })
      assert.deepEqual([graded.isFound, graded.resolved, graded.statuses.size], [false, false, 0])
    }
  }
})

test('an empty section between the markers makes 4.1 and 5 read the whole log, but not the fork', () => {
  const log = `PASSED a\n${marked('nothing')}`
  assert.equal(grade({ profile: 'swebench-4.1', log }).resolved, true)
  assert.equal(grade({ profile: 'swebench-5', log }).resolved, true)
  assert.equal(grade({ profile: 'fork-4.0.3', log }).resolved, false)
})

test('an empty map is found under 4.1, and under 5 only when a runner reports that tests ran', () => {
  const silent = { log: marked('nothing'), tests: EMPTY }
  assert.equal(grade({ profile: 'swebench-4.1', ...silent }).resolved, true)
  assert.equal(grade({ profile: 'swebench-5', ...silent }).isFound, false)
  for (const words of [
    '3 passing',
    "x': ok",
    '# tests 2',
    'Tests: \n 4',
    'Test Suites: 1 failed, 3 total',
    '2 specs, 0 failures',
  ]) {
    assert.equal(grade({ profile: 'swebench-5', log: marked(words), tests: EMPTY }).resolved, true, words)
  }
  for (const words of ['0 passing', ' # tests 2', 'Executed 0 of 0', '3 passed']) {
    assert.equal(grade({ profile: 'swebench-5', log: marked(words), tests: EMPTY }).isFound, false, words)
  }
})

test('version 5 ignores passed tests of a failing command, and the first exit code counts', () => {
  const exits = (...codes: string[]): string => codes.map((code) => `>>>>> Test Exit Code: ${code}\n`).join('')
  const isFound = (log: string): boolean => grade({ profile: 'swebench-5', log }).isFound
  assert.equal(isFound(marked('PASSED a') + exits('1')), false)
  assert.equal(isFound(marked('PASSED a') + exits('0', '1')), true)
  assert.equal(isFound(marked('PASSED a') + exits('٠')), true)
  assert.equal(isFound(marked('PASSED a', 'FAILED b') + exits('1')), true)
  assert.equal(grade({ profile: 'swebench-4.1', log: marked('PASSED a') + exits('1') }).isFound, true)
  // Python refuses the number, also where no result depends on it.
  for (const line of ['PASSED a', '3 passing']) {
    assert.match(refusal({ profile: 'swebench-5', log: marked(line) + exits('1'.repeat(4301)) }), /ValueError/, line)
  }
})

test('a skipped test is left out under 4.1, and under 5 fails to begin to pass but is not lost', () => {
  const log = marked('SKIPPED a')
  const lost = { failToPass: [], passToPass: ['a'] }
  assert.equal(grade({ profile: 'swebench-4.1', log }).resolved, true)
  assert.equal(grade({ profile: 'swebench-5', log }).resolved, false)
  assert.deepEqual(grade({ profile: 'swebench-5', log, tests: lost }).tests?.passToPass.success, ['a'])
  assert.deepEqual(grade({ profile: 'swebench-4.1', log, tests: lost }).tests?.passToPass, { success: [], failure: [] })
})

test('an unknown status is left out on both sides', () => {
  for (const profile of MARKED) {
    assert.deepEqual(grade({ profile, log: marked('FAILED_X a') }).tests?.failToPass, { success: [], failure: [] })
  }
})

test('version 5 matches an id that was cut inside its parameters with the tests that begin with it, if they agree', () => {
  const resolved = (id: string, ...lines: string[]): boolean | null =>
    grade({
      profile: 'swebench-5',
      parser: 'parse_log_pytest_v2',
      log: marked(...lines),
      tests: { failToPass: [id], passToPass: [] },
    }).resolved
  assert.equal(resolved('t[a', 'PASSED t[a b]', 'XFAIL t[a c]'), true)
  assert.equal(resolved('t[a', 'PASSED t[a b]', 'FAILED t[a c]'), false)
  assert.equal(resolved('t', 'PASSED t[a b]'), false)
  assert.equal(resolved('t[a]', 'PASSED t[a] b'), false)
  assert.equal(
    grade({ profile: 'swebench-4.1', log: marked('PASSED t[ab]'), tests: { failToPass: ['t[a'], passToPass: [] } })
      .resolved,
    false,
  )
})

test('fail_only: only an explicit failure fails', () => {
  for (const profile of MARKED) {
    const input = { profile, evalType: 'fail_only', log: marked('ERROR a', 'FAILED b') } as const
    assert.equal(grade({ ...input, tests: { failToPass: ['a', 'absent'], passToPass: [] } }).resolved, true)
    assert.equal(grade({ ...input, tests: { failToPass: ['a'], passToPass: ['b'] } }).resolved, false)
  }
})

test('invalid UTF-8 is an error except under 5, which replaces it, and a byte order mark stays', () => {
  const log = Uint8Array.from([...new TextEncoder().encode(marked('PASSED a', 'PASSED b')), 0xff])
  for (const profile of ['swebench-4.1', 'fork-4.0.3', 'rebench-v2'] as const) {
    assert.match(refusal({ profile, log }), /^undecodable-log/)
  }
  assert.equal(grade({ profile: 'swebench-5', log }).resolved, true)
  const withMark = Uint8Array.from([0xef, 0xbb, 0xbf, ...new TextEncoder().encode('PASSED a\nPASSED b')])
  assert.deepEqual([...grade({ profile: 'swebench-5', log: withMark, tests: null }).statuses.keys()], ['b'])
})

test('parsers that only upstream knows are unsupported, and any other name is unknown', () => {
  assert.match(
    refusal({ profile: 'swebench-4.1', parser: 'parse_log_tap', log: '' }),
    /^unsupported-parser: unsupported parser "parse_log_tap"$/,
  )
  assert.match(
    refusal({ profile: 'rebench-v2', parser: 'parse_log_pascal', log: '' }),
    /unknown parser "parse_log_pascal"/,
  )
  assert.match(refusal({ profile: 'swebench-5', parser: 'parse_log_karma', log: '' }), /unsupported parser/)
  assert.match(refusal({ profile: 'swebench-5', parser: 'parse_log_eslint', log: '' }), /^unsupported-parser/)
  assert.match(refusal({ profile: 'swebench-4.1', parser: 'axios/axios', log: '' }), /unsupported parser/)
  assert.match(refusal({ profile: 'fork-4.0.3', parser: '', log: '' }), /^unknown-parser/)
  assert.match(refusal({ profile: 'swebench-5', parser: 'django/django', log: '' }), /unknown parser/)
  assert.match(refusal({ profile: 'fork-4.0.3', parser: 'parse_log_django', log: '' }), /unknown parser/)
  assert.match(refusal({ profile: 'rebench-v2', parser: '__proto__', log: '' }), /unknown parser/)
})

test('a parser exists for the profile whose version reads its logs', () => {
  assert.equal(hasParser('fork-4.0.3', 'parse_log_pytest'), true)
  assert.equal(hasParser('swebench-4.1', 'django/django'), true)
  assert.equal(hasParser('swebench-5', 'django/django'), false)
  assert.equal(hasParser('fork-4.0.3', 'axios/axios'), false)
})

test('an exception of the imitated parser is an error of the instance', () => {
  assert.match(
    refusal({ profile: 'rebench-v2', parser: 'parse_log_pytest_v2', log: 'PASSED' }),
    /^parser-raised: .*IndexError/,
  )
})

test('rebench-v2: exactly the listed tests must pass, without the times that runners print into names', () => {
  const resolved = (log: string, ...passToPass: string[]): boolean | null =>
    grade({ profile: 'rebench-v2', parser: 'parse_log_jest', log, tests: { failToPass: [], passToPass } }).resolved
  assert.equal(resolved('✓ a [1.2 ms]\n✓ b in 3 msec now\n✕ c', 'b now', 'a'), true)
  assert.equal(resolved('✓ a', 'a (3 ſ)'), true)
  assert.equal(resolved('✓ a', 'a ıN 3 SEC'), true)
  assert.equal(resolved('✓ a\n✓ b', 'a'), false)
  assert.equal(resolved('✓ a', 'a', 'a'), false)
  assert.equal(resolved('✓ a\n✓ a [1 ms]', 'a'), true)
  assert.equal(resolved(''), true)
})

test('rebench-v2: reads raw names without lists and names without times with them, and the later of two counts', () => {
  const input = { profile: 'rebench-v2', parser: 'parse_log_jest', log: '✓ a [1 ms]\n✕ a [2 ms]' } as const
  assert.deepEqual([...grade({ ...input, tests: null }).statuses.keys()], ['a [1 ms]', 'a [2 ms]'])
  assert.deepEqual([...grade({ ...input, tests: EMPTY }).statuses], [['a', 'FAILED']])
})
