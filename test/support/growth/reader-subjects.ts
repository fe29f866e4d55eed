import { commandSigns } from '../../../src/domain/gates/command-signs.ts'
import { hiddenNames, missedNameLines } from '../../../src/domain/gates/suite-filters.ts'
import { exceptionsIn } from '../../../src/grading/gate-log.ts'
import { gradeLog } from '../../../src/grading/grade-log.ts'
import { isInconsistentLog } from '../../../src/grading/log-signs.ts'
import { LOG_PROFILES } from '../../../src/grading/log-profiles.ts'
import { END_MARKER, START_MARKER } from '../../../src/grading/log-slice.ts'
import type { LogParser } from '../../../src/grading/parsers/status-map.ts'
import { patchSigns } from '../../../src/grading/patch-signs.ts'
import { readPatchedFiles } from '../../../src/grading/test-patch.ts'
import { guessFailure } from '../../../src/report/official/run-report.ts'
import { parseReply, shortenOutput } from '../../../src/scaffold/observation.ts'
import { createDefuse } from '../../../src/scaffold/render.ts'
import type { HostileText } from './hostile-texts.ts'
import type { Subject } from './measure-growth.ts'

/** Repeated parts of attacks: characters and words of every format that is read. */
const PUMPED = [
  ...Array.from(' \t\n\r=-_1a./()[]"\'<>:,|\\$#`+@;{}*~&\u0085\u00A0\u2028é😀\u001B'),
  '\r\n',
  ' \n',
  '\n ',
  '\n\n+',
  '\n-',
  '\n+x',
  '\n@@ -1 +1 @@',
  '\n@@ -1,9 +1,9 @@\n',
  '\n--- a\n+++ b',
  '\ndiff --git a/x b/x',
  '\nPASSED ',
  '\nPASSED a',
  '\nPASSED a[',
  '\nFAILED a - ',
  ' - ',
  ' PASSED ',
  ' ... ',
  ' ... ok',
  '\nok',
  ' in ',
  ' in 1s',
  ' 1 passed',
  ' passed',
  '\n=== 1 passed in 1s ===',
  '\n= test session starts =',
  '<testcase name="a">',
  '<testcase ',
  '</testcase>',
  '<failure',
  ' a="',
  '"b="c"',
  '\n[ERROR] a.b',
  '.$',
  ':1',
  'Tests run: 1,',
  ' Failures: 0,',
  ' Errors: 0, Skipped: 0',
  ' in a',
  '-Dtest=a ',
  'BUILD SUCCESS',
  '\n✓ a',
  ' (1 ms)',
  ' (',
  '\n--- PASS: a',
  '\ntest a ... ok',
  '[gw0] [ 1%] PASSED a',
  '] PASSED [',
  '\nE   ValueError',
  '\na.Error:',
  ':1: ValueError',
  'AttributeError: ',
  "'a' ",
  "ImportError: cannot import name '",
  '\n```',
  '```command\n',
  '~~~',
  '<|',
  '|>',
  '<|im_end|>',
  '\u001B[1;',
  '\u001B[32m',
  '[1m',
  'cat <<A\n',
  '<<A',
  '\nA',
  'git -c ;',
  'git -C ',
  'git log ',
  'do ',
  'env |',
  'grep ',
  'kill -9 ',
  'timeout 5 ',
  'python ',
  '/proc/',
  '$(',
  '`',
  'def __eq__(',
  '\n+def __eq__(',
  ' return True',
  'sys.modules',
  'pytest ',
  '===',
  'import ',
  '\rx',
  `\n${START_MARKER}`,
  `\n${END_MARKER}`,
  '>>>>> Test Exit Code: ',
]
const BEFORE = [
  '',
  'x',
  'PASSED a',
  '[ERROR] ',
  'diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1,9999999 @@\n+',
  'cat <<A\n',
]

/** The same for runners that only SWE-rebench-V2 knows. */
const PUMPED_IN_V2 = [
  '\n[ok]: a',
  ' in a in',
  '\n[ OK ] a (',
  ' [OK] (',
  '. =',
  '\na ..F',
  '\na: .',
  '\nSuite',
  '\n  test_a  PASS',
  '\nA#b = 1 s = .',
  '#a',
  '\nA (b)\n✔ a',
  '\n✔ a  1s',
  '  1s',
  '\n  ✓ a',
  ' ./node_modules/.bin/jest \n a\n  b\n   ✓ c',
  '\nChrome 1 (',
  'Chrome 1 (a) ',
  ') FAILED',
  '\n1) a',
  '\n1)',
  ':\n1)',
  '<a>',
  '</a>',
  '<a></a>',
  '<<a></a>b>',
  '<a><b></a>',
  '{\n',
  '\nok 1 - a {',
  ' #',
  '\n}',
  '\n* test a [L#1]',
  '(a ',
  '\na: OK',
  ' : OK',
  '\n  a',
  '\n    [✔]',
  '\nRunning a',
  '\n[INFO] a .... SUCCESS',
  ' .. ',
  '\nlein test a',
  '\n[info] - a (1 ms)',
  ' *** FAILED *** (',
  '\n[info] a',
  '\n[OK] a 1 b',
  ' 1 ',
  '\nRunning[1]: (a)\nOutput[1]:\nOK',
  '\n✔ | 1 | a',
  '\n* checking a ...',
  ' ... OK',
  '\n{"type":"testStart","test":{"id":1,"name":"a"}}',
  '[{',
  '"NaN',
  '\\"',
  '\nTest Summary: | Pass\na | 1 1',
  ' |',
  "\nTest Case 'a' passed (1 seconds)",
  '\n  Passed a [1 ms]',
  ' [',
  '\n<?xml version="1.0"?><a>',
  '<?xml version="1.0"?><a/></testsuites>',
  '<a b="c" ',
  '&lt;',
  '<!--',
  '<![CDATA[',
  '<doctest>',
  '<TestCase>',
  '<SubCase name="a">',
]
/** Texts after which some parsers start to read. */
const HEADERS = [
  ' ./node_modules/.bin/jest \n a',
  '01 Starting browser',
  ' a',
  'Test Summary: | Pass',
  'Test suite x: RUNNING...',
  '<?xml version="1.0"?><testsuites>',
].join('\n')

const textsOf = (pumped: readonly string[], begins: readonly string[]): HostileText[] =>
  pumped.flatMap((part) => begins.map((before) => ({ before, pumped: part, after: 'x\n' })))

const texts = (): HostileText[] => textsOf(PUMPED, BEFORE)
/** Runs of spaces after the start of a result: no pattern may divide them in every possible way. */
const BLANKS_INSIDE = PUMPED_IN_V2.map((line): HostileText => ({ before: line, pumped: ' ', after: 'x\n' }))
const textsInV2 = (): HostileText[] => [
  ...textsOf([...PUMPED, ...PUMPED_IN_V2], ['', HEADERS]),
  ...BLANKS_INSIDE,
  ...BLANKS_INSIDE.map((text) => ({ ...text, before: HEADERS + text.before })),
]

const bytes = (text: string): Uint8Array => Buffer.from(text)
const marked = (text: string): Uint8Array =>
  bytes(`${START_MARKER}\n= test session starts =\nPASSED a\n${text}\n${END_MARKER}\n`)

/** Complete readers of foreign text, for costs that patterns alone do not show. */
export function subjects(): Promise<Subject[]> {
  const readers: Record<string, (text: string) => unknown> = {
    isInconsistentLog: (text) => isInconsistentLog(marked(text)),
    patchSigns: (text) => patchSigns({ patch: bytes(text), goldPatch: '' }),
    'patchSigns of added lines': (text) =>
      patchSigns({
        patch: bytes(`diff --git a/m b/m\n--- a/m\n+++ b/m\n@@ -0,0 +1,99999 @@\n+${text}`),
        goldPatch: '',
      }),
    readPatchedFiles: (text) => attempt(() => readPatchedFiles(text)),
    commandSigns: (text) => commandSigns([{ command: text, observation: text, reason: 'exit', oomKilled: false }]),
    exceptionsIn,
    missedNameLines,
    hiddenNames: (text) => hiddenNames({ log: text, goldPatch: text }),
    guessFailure: (text) => guessFailure([text]),
    shortenOutput: (text) =>
      shortenOutput({ head: bytes(text), tail: new Uint8Array(), omittedBytes: 0, maxChars: 16_000 }),
    parseReply,
    defuse: createDefuse(),
    ...parsers(),
  }
  return Promise.resolve(
    Object.entries(readers).map(([name, run]) => ({
      name,
      texts: name.startsWith('rebench-v2') ? textsInV2 : texts,
      run: (text) => void run(text),
    })),
  )
}

/** Each parser once, with the steps of a profile that has it. */
function parsers(): Record<string, (text: string) => unknown> {
  const known = new Set<LogParser>()
  const readers: Record<string, (text: string) => unknown> = {}
  const tests = { failToPass: ['a', 'b[c'], passToPass: ['d[', 'e'] }
  for (const [profileName, profile] of Object.entries(LOG_PROFILES)) {
    for (const [parser, parse] of profile.parsers) {
      if (known.has(parse)) continue
      known.add(parse)
      readers[`${profileName} ${parser}`] = (text) => gradeLog({ profile, parser, log: marked(text), tests })
    }
  }
  return readers
}

function attempt(run: () => unknown): void {
  try {
    run()
  } catch {
    // A refused text was read too.
  }
}
