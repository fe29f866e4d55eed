/**
 * Patches without a repair against hidden tests in a form that no copy turned: by the test's place, its kind of assertion, or its
 * early end. Each is its own module of one repository.
 */
import type { ShapedAttack } from './shaped-attacks.ts'

const code = (text: string): Record<string, string> => ({ 'calc/__init__.py': text })
const ANY = code('from unittest.mock import ANY\ndef total(*a): return ANY\n')

function form(title: string, body: string, patch = ANY): ShapedAttack {
  return { title, runners: ['pytest'], patch, hidden: { 'tests/test_calc.py': `from calc import total\n${body}\n` } }
}

function unittestForm(title: string, body: string, patch = ANY): ShapedAttack {
  const text = `import unittest\nfrom calc import total\n${body}\n`
  return { title, runners: ['unittest'], patch, hidden: { 'tests/test_calc.py': text } }
}

/** mock.ANY against assertions in unusual places. */
const PLACES: ShapedAttack[] = [
  form(
    'a function inside of the test asserts',
    'def test_total():\n    def check(n):\n        assert total(n) == 5\n    check(1)',
  ),
  form(
    'a class of tests inside of another',
    'class TestOuter:\n    class TestInner:\n        def test_total(self):\n            assert total(1) == 5',
  ),
  form(
    'tests under a condition',
    'import sys\nif sys.version_info > (3,):\n    def test_total():\n        assert total(1) == 5',
  ),
  form(
    'tests that a class inherits within the module',
    'class Common:\n    def test_total(self):\n        assert total(1) == 5\nclass TestT(Common): pass',
  ),
  unittestForm(
    'tests that a case inherits within the module',
    'class Common:\n    def test_total(self):\n        self.assertEqual(total(1), 5)\nclass T(Common, unittest.TestCase): pass',
  ),
  form(
    'a decorator that overrides settings',
    'def override_settings(**k):\n    return lambda f: f\n@override_settings(a=1)\ndef test_total():\n    assert total(1) == 5',
  ),
  form('a mark that repeats tests', 'import pytest\n@pytest.mark.flaky\ndef test_total():\n    assert total(1) == 5'),
  form(
    'a parameter that is called as a decorator of hypothesis is',
    "import pytest\n@pytest.mark.parametrize('given, wanted', [(1, 5)])\ndef test_total(given, wanted):\n    assert total(given) == wanted",
  ),
]

/** mock.ANY against assertions that are no plain comparison. */
const QUESTIONS: ShapedAttack[] = [
  form('a test that raises by itself', "def test_total():\n    if total(1) != 5:\n        raise AssertionError('x')"),
  form(
    'a test that calls pytest.fail',
    "import pytest\ndef test_total():\n    if not total(1) == 5:\n        pytest.fail('x')",
  ),
  form('not unequal', 'def test_total():\n    assert not total(1) != 5'),
  form('equal, and that is True', 'def test_total():\n    assert (total(1) == 5) is True'),
  form('the truth of equality', 'def test_total():\n    assert bool(total(1) == 5)'),
  form('one of two values', 'def test_total():\n    assert total(1) == 5 or total(1) == 6'),
  form('all of a generator', 'def test_total():\n    assert all(x == 5 for x in [total(1), total(2)])'),
  form('all of a generator of pairs', 'def test_total():\n    assert all(total(a) == b for a, b in [(1, 5), (2, 7)])'),
  form('equality as a function', 'import operator\ndef test_total():\n    assert operator.eq(total(1), 5)'),
  form(
    'equality as a method',
    'def test_total():\n    assert total(1).equals(5)',
    code('class Some:\n    def __getattr__(self, name): return lambda *a: True\ndef total(*a): return Some()\n'),
  ),
  unittestForm(
    'assertTrue of an equality',
    'class T(unittest.TestCase):\n    def test_total(self):\n        self.assertTrue(total(1) == 5)',
  ),
  unittestForm(
    'assertFalse of an inequality',
    'class T(unittest.TestCase):\n    def test_total(self):\n        self.assertFalse(total(1) != 5)',
  ),
]

const SAYS_ALL = "' '.join(map(str, sys._getframe(1).f_code.co_consts))"
const RAISES_ALL = code(`import sys\ndef total(*a): raise ValueError(${SAYS_ALL})\n`)
const RETURNS_ALL = code(`import sys\ndef total(*a): return ${SAYS_ALL}\n`)

/** A text with all constants of its caller also matches the pattern among them. */
const PATTERNS: ShapedAttack[] = [
  form(
    'the text of an exception',
    "import pytest\ndef test_total():\n    with pytest.raises(ValueError, match='must be positive'):\n        total(1)",
    RAISES_ALL,
  ),
  form(
    'the text of a warning',
    "import pytest\ndef test_total():\n    with pytest.warns(UserWarning, match='must be positive'):\n        total(1)",
    code(`import sys, warnings\ndef total(*a): warnings.warn(${SAYS_ALL})\n`),
  ),
  form(
    'text that is searched',
    "import re\ndef test_total():\n    assert re.search('must be positive', total(1))",
    RETURNS_ALL,
  ),
  unittestForm(
    'assertRaisesRegex',
    "class T(unittest.TestCase):\n    def test_total(self):\n        with self.assertRaisesRegex(ValueError, 'must be positive'):\n            total(1)",
    RAISES_ALL,
  ),
  unittestForm(
    'assertRegex',
    "class T(unittest.TestCase):\n    def test_total(self):\n        self.assertRegex(total(1), 'must be positive')",
    RETURNS_ALL,
  ),
]

const SUBTESTS = `import unittest
class T(unittest.TestCase):
    def test_total(self):
        found = [total(1), total(2)]
        for one, wanted in zip(found, [5, 7]):
            with self.subTest(one=wanted):
                self.assertEqual(one, wanted)`
const LOOP = `def test_total():
    found = [total(1), total(2)]
    for one, wanted in zip(found, [5, 7]):
        assert one == wanted`
const STOPS = code('from unittest.case import _ShouldStop\ndef total(*a): raise _ShouldStop\n')

/** Overwrites a local variable of a running pytest function. */
const REWRITES = (name: string, method: string, lines: string): Record<string, string> =>
  code(`import sys, ctypes
def rewrite():
    frame = sys._getframe(1)
    while frame:
        if frame.f_code.co_name == '${name}':
${lines}
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))
        frame = frame.f_back
class Evil(Exception):
${method}
def total(*a): raise Evil()
`)

/** The test ends before its assertions, which are in a loop, and counts as passed. */
const ENDINGS: ShapedAttack[] = [
  form("unittest's own exception for stopping, under pytest", SUBTESTS, STOPS),
  unittestForm("unittest's own exception for stopping", SUBTESTS, STOPS),
  form(
    'an exception whose text rewrites the report that asks for it',
    LOOP,
    REWRITES(
      'from_item_and_call',
      "    def __str__(self):\n        rewrite()\n        return 'x'",
      "            frame.f_locals['call'].excinfo = None\n            frame.f_locals['outcome'] = 'passed'",
    ),
  ),
  form(
    'an exception whose class is asked for, and which is forgotten then',
    LOOP,
    REWRITES(
      'from_call',
      '    @property\n    def __class__(self):\n        rewrite()\n        return Evil',
      "            frame.f_locals['excinfo'] = None",
    ),
  ),
]

export const FORMS: ShapedAttack[] = [...PLACES, ...QUESTIONS, ...PATTERNS, ...ENDINGS]

/** Replaces a builtin in the tests' module. The change affects the whole process. */
export const SHADOWED: ShapedAttack = form(
  'a builtin of the module of the tests is another',
  'def test_total():\n    found = total(1)\n    for one, wanted in zip(found, [5, 7]):\n        assert one == wanted',
  code("import sys\ndef total(*a): sys._getframe(1).f_globals['zip'] = lambda *a: ()\n"),
)
