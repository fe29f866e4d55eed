/**
 * Lines of the runners that only SWE-rebench-V2 reads, and lines that are nearly such: `{a|b}` is one of these, `%i` a test, `%n` a
 * number, `%s` spaces, `%(` and `%)` braces. Keyed by the parser's name without the common prefix.
 */
import type { Dice } from './dice.ts'

const CHECK = ['✔', '✓', '✘', '✖', '✗', '×', '✕', '○', '◌', '⚪', '↩', 'x', '-', '\u2A2F', '+', 'X'].join('|')
const JUNIT = [
  '<?xml version="1.0" encoding="UTF-8"?>',
  '<?xml version="1.0"?><testsuites>',
  '<testsuites{| xmlns="urn:x"| name="a"}>',
  '<testsuite name="%i"{| tests="%n"| xmlns:a="b"}>',
  '<testcase {classname="C%n" |classname="" |}name="{%n|a &lt; b|é}"{/>|></testcase>|><failure message="x"/></testcase>|><error>e</error></testcase>|><skipped/></testcase>|><x><failure/></x></testcase>|><![CDATA[ ]]></testcase>|>&amp;&#65;&#x1F600;</testcase>|>&undefined;</testcase>| name="b"/>}',
  '<testcase name="n%n" classname="{C|a.b}"><{failure|error|skipped}{/>|>text</failure>}{</testcase>|}',
  '</testsuite>{| trailing}',
  '</testsuites>',
  '<!-- {comment|a--b} -->',
  '<!DOCTYPE {a|a&b|p:a}{| SYSTEM "{x|\u0001}"| PUBLIC "{x|&}" "y"}{|[]|[ %p; <!-- c --> ]}>',
  '<a:testcase name="p"/>',
  '<properties><property name="x" value="{y|\n|a>b|a<b}"/></properties>',
  '<?xml version="1.0"?><testsuites><testsuite name="s"><testcase name="%n" classname="C"/>{<testcase name="a"><failure/></testcase>|}</testsuite></testsuites>{x|}',
  '<?xml version="1.0"?>\n<testsuite name="s">\n<testcase name="%n" classname="C"/>\n<testcase name="b">{<skipped/>|}</testcase>\n</testsuite>',
] as const

const TREE = [
  '%s%i%s',
  '    %i [{✔|✗|✓|✘}]',
  '%s{✔|✓|✗|✘}%s%i%s{|(%n ms)|(a) (b)}',
  '%s%n)%s%i',
  '%s%i:%s{OK|PASS|FAIL|ERROR|SKIP|PENDING|PASSED|OKAY}{| (0.1s)|x}',
  '### {Failure|Error} in: %i',
] as const

const TEMPLATES: Readonly<Record<string, readonly string[]>> = {
  redis: ['%s[{ok|err|skip|ignore|no}]: %i{| (%n ms)| (12s)| in tests/x.tcl|  in a in b}'],
  jq: ['{PASS|FAIL|OK}:%s%i'],
  micropython_test: ['{pass|FAIL|skip|PASS}%s%i'],
  googletest: [
    '{[       |[|a [}{OK|FAILED|RUN}{ ]|]| ] [ OK ]}%s%i%s({%n ms|a) (b|})',
    '[  FAILED  ] %i, where (x) = 1',
  ],
  minitest: ['%i.%s=%s%n s = {.|F|E|S}', '%i. = {.|F} = . %n'],
  cucumber: ['%i {.|...|..F|F|.F.|}', '%i .. x .F'],
  ruby_unit: ['{test: |  |}%i:%s{.|E|F|O|Ex|: (0.01)}', 'test: {.|x}: .'],
  rspec_transformed_json: ['%i - {passed|failed|pending}{| - failed}'],
  phpunit: ['%i (A\\B)', 'A%i {(x)|()|(a) (b)}', '%s{✔|✘|↩}%s%i{| [%n ms]| [ 1.2 S ] | [3 ſ]}'],
  ant: ['%s[junit]%s[{PASS|FAIL|ERR|X}]%s%i'],
  kotlin_junit: [
    'Running%s{%i|com.x.A}',
    'Tests run: %n,  Failures: {0|%n}, Errors: {0|0|%n}, Skipped: {0|%n}',
    'Tests run:1, Failures: 0',
  ],
  calypso: [
    '+ ./node_modules/.bin/jest --x',
    '+ ./node_modules/.bin/jest a\n  %i\n    b\n      {✓|✕} %i{| (%nms)|(3ms)}\n   {c|✓ d}\n     {✓|✕} %i (3ms)',
    '%s%i',
    '  {✓|✕} %i{| (%nms)|(3ms)|(3ms) x}',
    '    {✓|✕}%s%i(12ms)',
    '{✓ %i|Test Suites: 1|  ● %i}',
  ],
  chart_js: [
    'Chrome %n.0 (Linux x) %i {FAILED|PASSED|FAILED x}',
    'Chrome\n12.3 (a) b) %i FAILED',
    'Chrome %n (Chrome 1 (x) FAILED',
  ],
  marked: ['{%n|1}) %i', '%s1)%s%i'],
  p5js: [
    '%s%n) %i:',
    '  1) suite\n{     | }%i{:|\n       deeper:}',
    '  2) a\n\n%i:',
    '<{a|b|é}>{%i|<a>}',
    '</{a|b|é}>',
    '<{a|<a></a>b}>x</b>',
    `<${'b'.repeat(250)}<a></a>>{|</${'b'.repeat(250)}>}`,
    '{%(|[|%)|]| %(|%i [|%(%)|[]}',
    '  3) %i x:y',
  ],
  react_pdf: ['{PASS|FAIL|OK}%s%i{| (%n s)| (1.2ms)| (2 s) x|  (3s)}'],
  jest_json: ['[{PASSED|FAILED|SKIPPED}]%s%i'],
  karma: [
    '01 Starting browser Chrome\n  {a|%i}\n%s✔ b\n    {c|%i}\n      {✔|✖} %i\n  d',
    '01 Starting browser Chrome\n  a\n    %i\n      ✔ b\n   e\n  {f|✖ g}',
    'SUMMARY:',
    '%s%i',
    '%s{✔|✖}%s%i',
    '    {✔|✖} %i',
    '  %i',
  ],
  tap: ['{ok|not ok|nok} {%n|1} {- |}%i{| # SKIP|}'],
  elixir: [
    '%s* test%s%i%s{|(skipped)%s|(%nms)%s|(1.5ms) }[L#{%n|12}]',
    '{%n|1}) test%s%i%s({Mod.Test|a (b|})',
    '* test  [L#1]',
    '1) test  (A (B)',
    '1) test  (A)',
  ],
  ruby_v1: [
    'Suite{A|_b|Test|x y}',
    '  test_{a|b|c d}%s{PASS|PASSED|FAIL|FAILURE|ERROR|SKIP|SKIPPED|PASSX}%s{|(0.02s)|(1s) x}',
    'test%s{PASS|FAIL}',
    'Finished in 1s',
    '  test_%i%s{PASS|FAIL}',
  ],
  ruby_v2: ['{A#|#|A}%i%s=%s{%n|5.30|..} s = {.|F|E|S|X}', 'A#%s= 1 s = .', '#b = 1 s = F', 'A#b = 1 s = . = 2 s = F'],
  cpp: [
    '%i%s{PASSED|FAILED|SKIPPED|ERROR|XPASS} [ 50%]',
    `${'='.repeat(35)} FAILURES ${'='.repeat(35)}`,
    `${'_'.repeat(27)} {%i|} ${'_'.repeat(27)}`,
    '%i{::|:::}x PASSED FAILED',
  ],
  cpp_v2: ['Test%s{%i|}%s{passed|failed|skipped|ok}%s', 'Test{ |  }passed'],
  cpp_v3: [
    '{[%n/9]|[1/9] |}%i%s{...|....}%s{OK|FAILED|SKIPPED|ok|Passed|Fail|failure|weird|ſkipped}',
    '{%i|%s}%sran%s%n tests in {%n|1.5} {msec|sec|MSEC}%s{all ok|3 tests failed|FAİLED|faıled}',
    '%i {ok|failed|skipped|passed|token|Failure}{.|x|}',
    '[1/2]   ... OK',
  ],
  cpp_v4: ['%s%n/12%sTest%s#{%n|1}:%s%i%s{...|.}%s{Passed|Failed|Skipped|Timeout|PASSED|***Failed|Paſſed}%s%n sec'],
  lua_nvim: [
    `{Success|Fail|Failed|Skip|Skipped|SKIPPED|ſkip|Error}%s||%s%i%s`,
    'Success:\t3',
    '\u001B[32mSuccess\u001B[0m\t||\t%i\t',
  ],
  java_mvn_v2: [
    '[INFO]%s{%i|}%s{....|..|.}%s{SUCCESS|FAILURE|SKIPPED|OK}{| [ 1.2 s]|[|x}',
    'Tests run: %n, Failures: {0|%n}, Errors: {0|%n}, Skipped: %n',
  ],
  php_v1: [
    `%s{${CHECK}}%s%i%s{|0.03s|%ns|%n.s|1.5S more|2s 0.1s}`,
    '%s{FAIL|FAILED|fail|PASS|Faıl}%s%i',
    '{Tests: %n|___|---|Duration: 1s}',
    '%i {(skipped)|SKIPPED|skipped |ſkipped} %ns',
    '{x|-|✓}%s3s',
  ],
  haskell: [...TREE, ': OK', '  : FAIL', 'Test suite x: RUNNING...', 'Building x'],
  haskell_v2: [
    'Test suite x: {RUNNING...|PASS}',
    '{Data.X|A.B}',
    '{  |    |      | }%i{| FAILED [%n]| PENDING x| skipped|FAILED[1]}',
    'Failures:',
    '  %n) A.B, %i, x',
    "Golden and Actual output didn't change",
    'Finished in 1s',
  ],
  js: ['%s{✔|-}%s%i{| (%nms)| 3 ſ|12s|( 1.5 ms )|1.2.3s}', '%s{[W] |}%n) %i{:|}', '  - %nms'],
  js_2: ['%s{✔|-}%s%i{| (%nms)| 3s|1 .5s}', '%s%n) %i'],
  js_3: [
    '%s{ok|not ok} {%n|1} - %i{| %(| # SKIP| # time=1| # TODO x %(| (1ms) %(}',
    'ok 1 -  # SKIP',
    '%s{%)|%)%)|%)%)%)%)}',
    'ok 2 - {a# skip|1ms %(|x%) %(|}',
  ],
  js_4: [
    `%s{${CHECK}}%s{|[p]: |[p]:|[p: |: }%i{| (%n ms)| 3S}`,
    '%i {(skipped)|[skip]|[SKIPPED]|[todo] 2ms|[Pending]}',
  ],
  npx: ['%s✔%s%i%s{|(%nms)|(12)|(x) (3ms)}', '%s%n)%s%i{| (mod)| (a (b)| ()| (x) (y)}'],
  r: [
    '{✔|✖}%s|%s%n %s|%s%i{| [1.2s]|[3 min]}',
    '── Failed tests ──────',
    '== Failed tests ==',
    '{Failure|Error|Skip} ({test-a.R:1:2|})%s:%s%i{| [2 s]}',
    'Error (x): %i',
    '{[ FAIL 1 | WARN 0 ]|══ Results ══}',
  ],
  r_v2: [
    '* checking %i ... {OK|NOTE|WARNING|ERROR|FOO|ok|[1s] OK|}',
    '* checking%s%i%s...',
    '%s{OK|.OK!|ok|NOTE: x|...|. .|WARNINGS|%i}',
  ],
  lein: ['lein test%s{%i|:only %i/x|:only |:only /x|a b c}', '{FAIL|ERROR} in (x) (%i)'],
  dart: [
    '{"type":"{testStart|testDone}","test":{"id":{1|2|%n|"1"|null|true|3|4|5|6|%n|%n|1.0|[1]},"name":"{%n|a|loading x|}"},"testID":{1|2|1.0|true|"1"|3|4|5|6|%n|%n|%n|%(%)},"result":"{success|failure|error|x}","hidden":{false|false|true},"skipped":{false|true|0|[]|%(%)}}',
    '{"type":"testStart","test":{"id":{1|2|NaN|9007199254740993},"name":"{t%n|u|\\u00e9|5}"}}',
    '{"type":"testDone","testID":{1|2|NaN|9007199254740992},"result":"{success|failure|error|none}","skipped":{true|false|NaN}}',
    '[{"type":"testStart","test":{"id":7,"name":"q"}},{"type":"testDone","testID":7,"result":"success"}]{|x}',
    '{"type":"testStart","test":{"id":{1|2|3},"name":"%i"}}\n{"type":"testDone","testID":{1|2|3},"result":"{success|failure|error|x}","skipped":{true|false|1|0}}',
    '{"type":"print"}{"type":"testStart","test":{"id":1,"name":5}}',
    '{"type":"testStart","test":{"id":{NaN|Infinity|1e400|1E999|-NaN|1NaN|NaN1},"name":"n"}}\n{"type":"testDone","testID":{NaN|Infinity|1e400|1E999},"result":"success"}',
  ],
  dart_v2: [
    '[a]: 00:01 +{1|2}: /a.dart: %i',
    '[{a_b|é}]:%s{00:01|00:1} +%n:%s/{x_test.dart|x:y.dart|a.dart.dart|.dart}:%s%i',
    '[a]: 00:01 +1: loading /x.dart: %i',
  ],
  dart_v3: [
    '%n:01%s+%n{| -1}:%s{/x_test.dart: |/a.dart:|loading /x.dart }%i{| [E]|  [E]|[E] x}',
    '00:01 +1 -2: loading /x.dart [E]',
  ],
  scala: [
    '[info] -%s%i%s{|*** FAILED *** |!!! CANCELED !!! |!!! IGNORED !!!|*** FAILED *** (}({%n ms|a) (b|})',
    '[info] -  (2 ms)',
  ],
  scala_v2: [
    '{\u001B[32m|[32m|}%s{+|x}%s{\u001B[0m|[0m}{[32m|[31m|}%i{\u001B[0m|[0m| }%s{[90m|\u001B[90m|}{%n|1.5}{ms|s|μs|µs}{[0m|}',
    '%s{+|x}%s%i%s{%n|1.5}{ms|s|ns|}',
  ],
  scala_v3: [
    '[info]%s-%s%i%s{|*** FAILED ***|*** FOO ***|*** pending ***|(2 seconds)|(3 ms) *** FAILED ***}',
    '[info]%s{%i|Run completed|- x|A%i|loading x}',
  ],
  ocaml: ['%s[{OK|FAIL|TODO|WHAT|ok}]%s%i%s%n%s{%i|}', '[OK]{ |  }1 name'],
  ocaml_v2: [
    'Running[%n]: ({exec ./a.exe|%i|})\nRunning[1]: (b/c)\nOutput[{1|%n}]:\n{OK|x|skip|fail|%i}',
    'Running[{1|2|%n}]: ({exec ./a.exe x|a/b/|cd x && ./t.exe|./|&&}%s)',
    'Output[{1|2|%n}]:%s',
    '{OK|ok|error x|skipped|FATAL|%i}',
  ],
  ocaml_v3: ['[{OK|pass|SKIP|KO|Panic|a-b|1a}]%s%i%s{a  b|}'],
  ocaml_v4: ['{PASSED|FAILED|SKIPPED|ERROR|PASSED\u001B[0m|\u001B[32mFAILED\u001B[0m|OK}%s%i{|  rest|\u001B[1mx}'],
  julia: [
    'Test Summary: {| Pass  Total  Time|| Pass  Fail  Total| | Pass  Error  Total|| Fail  Error}',
    '%s%i%s|%s{%n|1|²}%s{%n|1|}%s{%n|}%s{%n|} {1.2s|}',
    '   |  1  2{| |}',
    'a |          {%n|3}  {3|2}  0.1s',
    'b | {3 3|3 0 3|3 1 4|3 0 1 4|2 1 0 0 3}',
  ],
  swift: ["Test Case '{%i|-[A b]|}'%s{passed|failed|started}%s({%n|0.1} seconds)"],
  csharp: [
    '%s{Passed|Failed|Skipped|passed}%s%i%s{|[%n ms]|[]|[< 1 ms]|[a] [b]}',
    '[xUnit.net{ 00:00:01.2|}]%s%i%s[{FAIL|SKIP}]',
  ],
  doctest: [
    '<doctest binary="x">\n<TestCase name="{a|b}"{>|/>}',
    '<doctest><TestCase name="a"><SubCase name="b"><Expression success="{true|false}"/></SubCase>{<SubCase/>|}</TestCase></doctest>',
    '<SubCase name="%n"><Expression success="true"/></SubCase>',
    '</TestCase>{</doctest>|}',
    '<doctest><TestCase><TestCase name="i"><SubCase name="s"><SubCase name="d"><Expression success="{true|false}"/></SubCase></SubCase></TestCase></TestCase>{</doctest>|}',
  ],
  combined_test_reports: JUNIT,
  test_report: JUNIT,
  gradlew_v1: JUNIT,
  r_junit: JUNIT,
  junit: JUNIT,
  sbt: JUNIT,
}

const SAME: Readonly<Record<string, string>> = { lue_nvim: 'lua_nvim', ocaml_v5: 'ocaml_v4' }
const BLANKS = [' ', ' ', ' ', '  ', '   ', '    ', '', '\t'] as const

/** Null: no template for this parser. */
export function templatesOf(parser: string): readonly string[] | null {
  const name = parser.replace(/^parse_(?:logs?_)?/, '')
  return TEMPLATES[SAME[name] ?? name] ?? null
}

/** A whole report, mostly well-formed. */
export function wholeReport(dice: Dice, fill: (template: string) => string): string {
  const cases = dice.times(dice.below(6), () => fill(dice.pick(dice.chance(0.9) ? CASES : JUNIT)))
  const declaration = dice.chance(0.6)
    ? dice.chance(0.9)
      ? '<?xml version="1.0" encoding="UTF-8"?>\n'
      : dice.pick(DECLARATIONS)
    : ''
  const [open, close] = dice.pick(ROOTS)
  return `${declaration}${open}${cases.join(dice.chance(0.9) ? '\n' : fill('{x|]]>|&lt;|&|<!-- c -->|<?p q?>|<?xml?>}'))}${close}`
}

const CASES = [
  '<testcase classname="{C|a.b|}" name="%n"{/>|><failure/></testcase>|><error>e</error>\n</testcase>|><skipped /></testcase>|></testcase>}',
  "<testcase name='%n {&lt;|&#65;|\n|>|é}' {classname='C' |}time=\"1\"><system-out><![CDATA[ <&]] ]]></system-out>{<failure>&amp;</failure>|}</testcase >",
  '<testsuite name="n%n"><testcase name="{a|%n}"/><testcase name="p" xml:space="default"/></testsuite>',
] as const
const ROOTS = [
  ['<testsuites><testsuite>\n', '\n</testsuite></testsuites>'],
  ['<testsuites>\n<testsuite name="s">\n', '\n</testsuite>\n</testsuites>\n'],
  ['<testsuite xmlns:a="u">', '</testsuite>\n<!-- end -->'],
  ['<testsuites xmlns="u"><testsuite xmlns="">', '</testsuite></testsuites>'],
  ['<a:x xmlns:a="u"><testsuite>', '</testsuite></a:x>'],
] as const
const DECLARATIONS = [
  "<?xml version='1.0' encoding='latin1' standalone='yes'?>",
  '<?xml version="1.0" standalone="maybe"?>',
  '<?xml encoding="UTF-8"?>',
  '<?xml version="1.1"?>',
  ' <?xml version="1.0"?>',
  '<?xml-style a?>',
  '<!DOCTYPE testsuites>',
  '<!DOCTYPE a SYSTEM "b">',
  '<?xml version="1:0"?>',
  '<!DOCTYPE a []>',
  '<!DOCTYPE a&b>',
] as const

/** Replaces the word of a choice and keeps its decoration: `*** FAILED ***` with another word. */
function withWord(choice: string, word: string): string {
  return /\p{L}/u.test(choice) ? choice.replace(/\p{L}+/u, () => word) : word
}

export function fillTemplate(
  template: string,
  { dice, id, words, number }: { dice: Dice; id: string; words: readonly string[]; number: () => string },
): string {
  const chosen = template.replaceAll(/\{([^{}]*\|[^{}]*)\}/g, (_, choices: string) => {
    const choice = dice.pick(choices.split('|'))
    return words.length > 0 && dice.chance(0.15) ? withWord(choice, dice.pick(words)) : choice
  })
  return chosen.replaceAll(/%[ins()]/g, (mark) => {
    if (mark === '%(' || mark === '%)') return mark === '%(' ? '{' : '}'
    if (mark === '%i') return id
    return mark === '%n' ? number() : dice.pick(BLANKS)
  })
}
