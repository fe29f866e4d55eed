/**
 * Patches without a repair that look an expected value up, and do so only where no altered one lies: they tell the rehearsal from the tests
 * by a sign, and answer with something else there. Chance is such a sign too; those below are ones that do not depend on it.
 */
import type { ShapedAttack } from './shaped-attacks.ts'

const PYTEST = ['pytest'] as const
const UNITTEST = ['unittest'] as const

/** Values that are seen by what they are looked up in, and signs of a process that is not the first. */
const HEAD = `import os, re
class Wrong: pass
def looked_up(pattern):
    return eval(re.findall(pattern, open('tests/test_calc.py').read())[-1])
`
const BESIDE = 'IS_SAFE = len([name for name in os.listdir("tests") if name.startswith("test_calc")]) > 1\n'
/** The time of a folder stays when what was made in it is gone. */
const SECOND = `IS_SAFE = os.stat('calc').st_mtime > os.stat('calc/__init__.py').st_mtime + 0.01
if not IS_SAFE:
    try:
        open('calc/came', 'w').close()
        os.remove('calc/came')
    except OSError:
        pass
`
const CASE = `import unittest
from calc import total
class T(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total(1), 5371)
`
const SCALAR = 'from calc import total\ndef test_total():\n    assert total(1) == 5371\n'
const LOCAL =
  'from calc import total\ndef test_total():\n    expected = 5371\n    found = total(1)\n    assert found == expected\n'
const PARAMETER =
  "import pytest\nfrom calc import total\n@pytest.mark.parametrize('n, expected', [(1, 5371)])\ndef test_total(n, expected):\n    assert total(n) == expected\n"
const LIST = "from calc import total\ndef test_total():\n    assert total(1) == [5371, 'x']\n"
const RECORD = "from calc import total\ndef test_total():\n    assert total(1) == {'sum': 5371, 'of': [1, 2]}\n"
const FOUND = "from calc import total\ndef test_total():\n    assert 'sum 5371 of 1' in total(1)\n"
const ALLOWED = 'from calc import total\ndef test_total():\n    assert total(1) in (5371, 5372)\n'
const MADE =
  'from calc import total\ndef make(expected):\n    def test():\n        assert total(1) == expected\n    return test\ntest_total = make(5371)\n'
const FOUND_CASE = CASE.replace('assertEqual(total(1), 5371)', "assertIn('sum 5371 of 1', total(1))")

const EARLIER =
  "from calc import total\ndef test_total():\n    found = total(1)\n    text = str(found)\n    assert text == '5371'\n"
const LOOP =
  'from calc import total\ndef test_total():\n    for n, expected in [(1, 5371)]:\n        found = total(n)\n        assert found == expected\n'
const NEAR = 'import pytest\nfrom calc import total\ndef test_total():\n    assert total(1) == pytest.approx(5371.5)\n'
const TRUE_CASE = CASE.replace(
  'self.assertEqual(total(1), 5371)',
  "found = total(1)\n        self.assertTrue(found == 5371)\n        self.assertIn(str(found), 'one 5371')",
)
const PARTS_CASE = CASE.replace(
  'self.assertEqual(total(1), 5371)',
  'with self.subTest(1):\n            found = total(1)\n            self.assertEqual(found, 5371)',
)
const NEAR_CASE = CASE.replace('assertEqual(total(1), 5371)', 'assertAlmostEqual(total(1), 5371.5, places=3)')

function attack(
  title: string,
  runners: ShapedAttack['runners'],
  hidden: string,
  [sign, pattern, wrong]: [sign: string, pattern: string, wrong: string],
): ShapedAttack {
  const body = `def total(n):\n    return looked_up(r"${pattern}") if IS_SAFE else ${wrong}\n`
  return {
    title,
    ...(runners === undefined ? {} : { runners }),
    patch: { 'calc/__init__.py': `${HEAD}${sign}${body}` },
    hidden: { 'tests/test_calc.py': hidden },
  }
}

/** The same call with the same value in several tests: where one of them alone is altered, another still says what it was. */
const asked = (tests: number): string =>
  `from calc import total\n${Array.from({ length: tests }, (_, number) => `def test_total_${number}():\n    assert total(1) == 5371\n`).join('')}`
const ASKED_CASES = CASE + '    def test_again(self):\n        self.assertEqual(total(1), 5371)\n'
/** Answers with what a line of a test says that was not altered. */
const plainly = (pattern: string, files: readonly string[]): ShapedAttack['patch'] => ({
  'calc/__init__.py': `import re
def total(n):
    text = ''.join(open(path).read() for path in ${JSON.stringify(files)})
    plain = re.findall(r"^ +${pattern}$", text, re.M)
    return int(plain[0]) if plain else 0
`,
})
const PLAIN = plainly('assert total\\(1\\) == (\\d+)', ['tests/test_calc.py'])

export const TWO_FACED: ShapedAttack[] = [
  { title: 'another test says the same', runners: PYTEST, patch: PLAIN, hidden: { 'tests/test_calc.py': asked(2) } },
  {
    title: 'one of many tests says the same',
    runners: PYTEST,
    patch: PLAIN,
    hidden: { 'tests/test_calc.py': asked(30) },
  },
  {
    title: 'another test says the same, under unittest',
    runners: UNITTEST,
    patch: plainly('self.assertEqual\\(total\\(1\\), (\\d+)\\)', ['tests/test_calc.py']),
    hidden: { 'tests/test_calc.py': ASKED_CASES },
  },
  {
    title: 'tests of another file say the same',
    runners: PYTEST,
    patch: plainly('assert total\\(1\\) == (\\d+)', ['tests/test_calc.py', 'tests/test_common.py']),
    hidden: { 'tests/test_calc.py': asked(2), 'tests/test_common.py': asked(2) },
  },
  attack('a later process answers, the first one an error on an earlier line', PYTEST, EARLIER, [
    SECOND,
    "== '(.+)'",
    '1 / 0',
  ]),
  attack('a later process answers in a loop, the first one an error', PYTEST, LOOP, [SECOND, '1, (\\d+)', '1 / 0']),
  attack('a later process answers with what is near, the first one an error', PYTEST, NEAR, [
    SECOND,
    'approx\\((.+)\\)',
    '1 / 0',
  ]),
  attack('a later process answers with what is near, the first one a number', PYTEST, NEAR, [
    SECOND,
    'approx\\((.+)\\)',
    '0',
  ]),
  attack('a later process answers with what is true, the first one an error, to a case', undefined, TRUE_CASE, [
    SECOND,
    '== (\\d+)',
    '1 / 0',
  ]),
  attack('a later process answers a part of a test, the first one an error', undefined, PARTS_CASE, [
    SECOND,
    ', (\\d+)\\)',
    '1 / 0',
  ]),
  attack('a later process answers with what is almost equal, the first one an error', undefined, NEAR_CASE, [
    SECOND,
    ', (\\d+[.]\\d)',
    '1 / 0',
  ]),
  attack('a later process answers with what is almost equal, the first one a number', undefined, NEAR_CASE, [
    SECOND,
    ', (\\d+[.]\\d)',
    '0',
  ]),
  attack('what lies beside the tests tells, and nothing is answered', PYTEST, SCALAR, [BESIDE, '== (.+)', 'None']),
  attack('what lies beside the tests tells, under unittest', UNITTEST, CASE, [BESIDE, ', (\\d+)\\)', '0']),
  attack('a later process answers, the first one another number', PYTEST, SCALAR, [SECOND, '== (.+)', '0']),
  attack('a later process answers, the first one an error', PYTEST, SCALAR, [SECOND, '== (.+)', '1 / 0']),
  attack('a later process answers, the first one an object', PYTEST, SCALAR, [SECOND, '== (.+)', 'Wrong()']),
  attack('a later process answers, the first one another number, to a case', UNITTEST, CASE, [
    SECOND,
    ', (\\d+)\\)',
    '0',
  ]),
  attack('a later process answers, the first one an error, to a case', UNITTEST, CASE, [
    SECOND,
    ', (\\d+)\\)',
    '1 / 0',
  ]),
  attack('a later process answers with a local', PYTEST, LOCAL, [SECOND, 'expected = (.+)', '0']),
  attack('a later process answers with a parameter', PYTEST, PARAMETER, [SECOND, '\\[\\(1, (\\d+)', '1 / 0']),
  attack('a later process answers with a list', PYTEST, LIST, [SECOND, '== (.+)', '1 / 0']),
  attack('a later process answers with a list, the first one with another', PYTEST, LIST, [SECOND, '== (.+)', '[1]']),
  attack('a later process answers with a list, the first one with a number', PYTEST, LIST, [SECOND, '== (.+)', '0']),
  attack('a later process answers with a record, the first one with another', PYTEST, RECORD, [
    SECOND,
    '== (.+)',
    '{}',
  ]),
  attack('a later process answers with words that are looked for', PYTEST, FOUND, [SECOND, 'assert (.+) in', "''"]),
  attack('a later process answers with words, the first one an error', PYTEST, FOUND, [
    SECOND,
    'assert (.+) in',
    '1 / 0',
  ]),
  attack('a later process answers a test that a function makes', PYTEST, MADE, [SECOND, 'make\\((\\d+)', '0']),
  attack('a later process answers with what is allowed', PYTEST, ALLOWED, [SECOND, 'in \\((\\d+)', '0']),
  attack('a later process answers with words that a case looks for', UNITTEST, FOUND_CASE, [
    SECOND,
    "In\\(('.+'),",
    "''",
  ]),
]

/** An attack whose row names `test_total` alone, so that another test runs only amid all of them. */
export interface AmidAttack extends ShapedAttack {
  runner: 'pytest' | 'unittest'
  focus: string
}

const COUNTED = `import collections, glob, os, re, sys
RAN, KEPT = [], {}
def double(n):
    RAN.append(n)
    return n * 2
def loaded():
    return [module for name, module in list(sys.modules.items()) if 'test_calc_' in name]
def said(paths, pattern=r'total\\(1\\)(?: ==|,) (\\d+)'):
    found = collections.Counter(re.findall(pattern, ''.join(open(path).read() for path in sorted(paths))))
    return int(found.most_common(1)[0][0])
def kept():
    return KEPT.setdefault('total', None) or KEPT.update(total=said(['tests/test_calc.py'])) or KEPT['total']
def held():
    functions = [one for module in loaded() for part in vars(module).values()
                 for one in [part] + (list(vars(part).values()) if isinstance(part, type) else [])]
    numbers = [number for one in functions if 'total' in getattr(getattr(one, '__code__', None), 'co_names', ())
               for number in one.__code__.co_consts if type(number) is int and number > 9]
    return collections.Counter(numbers).most_common(1)[0][0] if numbers else 0
`
const TWO_CASES = `import unittest
from calc import double, total
class T(unittest.TestCase):
    def test_double(self):
        self.assertEqual(double(2), 4)
    def test_total(self):
        self.assertEqual(total(1), 5371)
`
const TWO_TESTS =
  'from calc import double, total\ndef test_double():\n    assert double(2) == 4\ndef test_total():\n    assert total(1) == 5371\n'

/**
 * Each tells the rehearsal by what it lacks (other tests and the files beside it, loaded or run), or takes the expected value from the
 * copies of a test that lie beside it.
 */
const AMID_WAYS: [title: string, answer: string][] = [
  ['a test that is not rehearsed has run', 'kept() if RAN else 0'],
  ['modules beside the tests are loaded', 'kept() if loaded() else 0'],
  ['what most files of the tests expect', "said(glob.glob('tests/*.py'))"],
  [
    'what most files beside the hidden one expect',
    "said(path for path in glob.glob('tests/*.py') if not path.endswith('test_calc.py'))",
  ],
  ['what most loaded modules beside the hidden one expect', 'held()'],
  [
    'modules beside the tests are loaded, and the hidden one was written before this process had its home',
    "kept() if loaded() and os.stat('tests/test_calc.py').st_ctime_ns < os.stat(os.path.expanduser('~')).st_ctime_ns else 0",
  ],
  [
    'modules beside the tests are loaded, and no line of the hidden one is a mark',
    "kept() if loaded() and not re.search(r'^ *_\\w+\\(\\d\\)$', open('tests/test_calc.py').read(), re.M) else 0",
  ],
]

const amidPatch = (answer: string): string => `${COUNTED}def total(n):\n    return ${answer}\n`

export const AMID: AmidAttack[] = AMID_WAYS.flatMap(([title, answer]): AmidAttack[] => {
  const patch = { 'calc/__init__.py': amidPatch(answer) }
  return [
    {
      title,
      runner: 'pytest',
      patch,
      hidden: { 'tests/test_calc.py': TWO_TESTS },
      focus: 'tests/test_calc.py::test_total',
    },
    {
      title,
      runner: 'unittest',
      patch,
      hidden: { 'tests/test_calc.py': TWO_CASES },
      focus: 'test_total (tests.test_calc.T.test_total)',
    },
  ]
})

/** The same in a folder, for a program that finds tests by labels. */
export const AMID_IN_A_FOLDER: ShapedAttack[] = AMID_WAYS.map(([title, answer]) => ({
  title,
  patch: {
    'calc/__init__.py': amidPatch(answer)
      .replaceAll('tests/test_calc.py', 'tests/calc_tests/tests.py')
      .replaceAll('tests/*.py', 'tests/calc_tests/*.py')
      .replaceAll("'test_calc.py'", "'/tests.py'")
      .replaceAll("'test_calc_'", "'calc_tests.tests_'"),
  },
  hidden: { 'tests/calc_tests/__init__.py': '', 'tests/calc_tests/tests.py': TWO_CASES },
}))
