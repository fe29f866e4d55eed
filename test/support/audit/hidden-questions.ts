/**
 * Patches without a repair against hidden tests that do not assert in the test itself: in a fixture, a lambda, a function that
 * returns a boolean, a method of a list, or a test that another function made. Each is its own module of one repository.
 */
import type { ShapedAttack } from './shaped-attacks.ts'

const code = (text: string): Record<string, string> => ({ 'calc/__init__.py': text })
const ANY = code('from unittest.mock import ANY\ndef total(*a): return ANY\n')
const SHORT = code(`class Some:
    def __eq__(self, other): return isinstance(other, int) and other < 900
    def __ne__(self, other): return not self == other
def total(*a): return Some()
`)
const FIRST = code(`first = {}
class Some:
    def __init__(self, key): self.key = repr(key)
    def __eq__(self, other): return first.setdefault(self.key, other) == other
    def __ne__(self, other): return not self == other
def total(*a): return Some(a)
`)
const MODULE = 'tests/test_calc.py'

type More = Pick<ShapedAttack, 'pristine'>

function form(title: string, body: string, patch = ANY, more: More = {}): ShapedAttack {
  return { title, runners: ['pytest'], patch, ...more, hidden: { [MODULE]: `from calc import total\n${body}\n` } }
}

function unittestForm(title: string, body: string, patch = ANY, more: More = {}): ShapedAttack {
  const text = `import unittest\nfrom calc import total\n${body}\n`
  return { title, runners: ['unittest'], patch, ...more, hidden: { [MODULE]: text } }
}

const LAMBDA = 'same = lambda one, other: one == other\ndef test_total():\n    assert same(total(1), 5)'
const HELPER =
  'def same(one, other):\n    if one != other:\n        return False\n    return True\ndef test_total():\n    assert same(total(1), 5)'
const FIXTURE =
  'import pytest\n@pytest.fixture\ndef five():\n    value = total(1)\n    assert value == 5\n    return value\ndef test_total(five):\n    assert five'
const FACTORY =
  'def make(n, wanted):\n    def test():\n        assert total(n) == wanted\n    return test\ntest_total = make(1, 5)'

/** The code changes the expected values where the tests store them. */
const CHANGED: ShapedAttack[] = [
  form(
    'a table of the test is changed by the code that is asked',
    "def test_total():\n    wanted = {'one': 5}\n    assert total('one') == wanted['one']",
    code(`import sys
def total(one):
    sys._getframe(1).f_locals['wanted'][one] = 0
    return 0
`),
  ),
]

/** The tests compare with a lying value. */
const LIES: ShapedAttack[] = [
  form('a fixture asserts', FIXTURE),
  form('a fixture that is made once asserts', FIXTURE.replace('fixture\n', "fixture(scope='module')\n")),
  form('a fixture asserts behind the test', FIXTURE.replace('return', 'yield')),
  form(
    'a fixture compares, and the test asks for the answer',
    'import pytest\n@pytest.fixture\ndef same():\n    return total(1) == 5\ndef test_total(same):\n    assert same',
  ),
  form('a function of the tests says yes or no', HELPER),
  form('a lambda of the tests says yes or no', LAMBDA),
  form(
    'a lambda among the parameters',
    "import pytest\n@pytest.mark.parametrize('n, check', [(1, lambda one: one == 5)])\ndef test_total(n, check):\n    assert check(total(n))",
  ),
  form('a list counts', 'def test_total():\n    assert [total(1)].count(5) == 1'),
  form('a list finds', 'def test_total():\n    found = [total(1)]\n    assert found.index(5) == 0'),
  form('a list takes out', 'def test_total():\n    found = [total(1)]\n    found.remove(5)\n    assert not found'),
  form(
    'a list counts what an attribute holds',
    'def test_total():\n    found = []\n    found.append(total(1).value)\n    assert found.count(5) == 1',
    code(
      'from unittest.mock import ANY\nclass Some:\n    def __init__(self): self.value = ANY\ndef total(*a): return Some()\n',
    ),
  ),
  form('a filter finds', 'def test_total():\n    assert list(filter(lambda one: one == 5, [total(1)]))'),
  form('a generator finds', 'def test_total():\n    next(one for one in [total(1)] if one == 5)'),
  form('a test that another function makes', FACTORY),
  form(
    'tests that a loop makes',
    "def make(n, wanted):\n    def test():\n        assert total(n) == wanted\n    return test\nfor n, wanted in [(1, 5), (2, 6)]:\n    globals()['test_total_%d' % n] = make(n, wanted)",
  ),
  form('what is compared before it is asserted', 'def test_total():\n    same = total(1) == 5\n    assert same'),
  form(
    'what is made when the module is read',
    'RESULT = total(1)\nSAME = RESULT == 5\ndef test_total():\n    assert SAME',
  ),
  form(
    'a context manager of the tests compares at its end',
    'class Expect:\n    def __init__(self, wanted): self.wanted = wanted\n    def __enter__(self): return self\n    def __exit__(self, *rest):\n        if not rest[0] and not self.found == self.wanted: raise AssertionError\ndef test_total():\n    with Expect(5) as one:\n        one.found = total(1)',
  ),
  form(
    'a decorator of the tests compares what they return',
    'import functools\ndef expects(wanted):\n    def wrap(test):\n        @functools.wraps(test)\n        def inner():\n            assert test() == wanted\n        return inner\n    return wrap\n@expects(5)\ndef test_total():\n    return total(1)',
  ),
  form(
    'a method of the class of tests says yes or no',
    'class TestTotal:\n    def same(self, one, other): return one == other\n    def test_total(self):\n        assert self.same(total(1), 5)',
  ),
  form(
    'a function beside the tests says yes or no',
    'from tests.helpers import same\ndef test_total():\n    assert same(total(1), 5)',
    ANY,
    {
      pristine: { 'tests/helpers.py': 'def same(one, other):\n    return one == other\n' },
    },
  ),
  form(
    'a lambda bounds',
    'inside = lambda one: 3 < one < 9\ndef test_total():\n    assert inside(total(1))',
    code(`class Some:
    def __lt__(self, other): return True
    __gt__ = __le__ = __ge__ = __lt__
def total(*a): return Some()
`),
  ),
  form(
    'a function of the tests looks for text',
    "def says(text, word): return word in text\ndef test_total():\n    assert says(total(1), 'line 3')",
    code('class Text(str):\n    def __contains__(self, other): return True\ndef total(*a): return Text()\n'),
  ),
  form(
    'a function of the tests allows a difference',
    'def near(one, other): return abs(one - other) < 0.1\ndef test_total():\n    assert near(total(1), 5.5)',
    code(
      'class Some(float):\n    def __sub__(self, other): return 0.0\n    __rsub__ = __sub__\ndef total(*a): return Some()\n',
    ),
  ),
  form(
    'a lambda asks for the beginning',
    "begins = lambda one: one.startswith('five')\ndef test_total():\n    assert begins(total(1))",
    code('class Some:\n    def __getattr__(self, name): return lambda *a: True\ndef total(*a): return Some()\n'),
  ),
  form(
    'a lambda compares records',
    'from collections import namedtuple\nPair = namedtuple("Pair", "one other")\nsame = lambda one, other: one == other\ndef test_total():\n    assert same(total(Pair), Pair(1, 5))',
    code('from unittest.mock import ANY\ndef total(kind): return kind(1, ANY)\n'),
  ),
  form(
    'a helper looks into a queue',
    'import collections\ndef holds(found, wanted): return found.count(wanted) == 1\ndef test_total():\n    assert holds(total(1), 5)',
    code('import collections\nfrom unittest.mock import ANY\ndef total(*a): return collections.deque([ANY])\n'),
  ),
  form(
    'a helper compares arrays of objects',
    'import numpy as np\ndef same(one, other): return bool((one == np.array(other, dtype=object)).all())\ndef test_total():\n    assert same(total(1), [5, 6])',
    code(
      'import numpy as np\nfrom unittest.mock import ANY\ndef total(*a): return np.array([ANY, ANY], dtype=object)\n',
    ),
  ),
  form('a lambda, and an object that equals small numbers', LAMBDA, SHORT),
  form('a fixture, and an object that equals small numbers', FIXTURE, SHORT),
  form('a lambda, and an object that stays what it was first compared with', LAMBDA, FIRST),
  form('a made test, and an object that stays what it was first compared with', FACTORY, FIRST),
  form(
    'a mock that was given what equals everything',
    'from unittest.mock import Mock\ndef test_total():\n    one = Mock()\n    total(one)\n    one.assert_called_once_with(5)',
    code('from unittest.mock import ANY\ndef total(one): one(ANY)\n'),
  ),
  form(
    'a function of the tests, and an answer that is true without being True',
    'def same(one, other): return one == other\ndef test_total():\n    assert same(total(1), 5)',
    code('class Yes: pass\nclass Some:\n    def __eq__(self, other): return Yes()\ndef total(*a): return Some()\n'),
  ),
  unittestForm(
    'what is set up for each test asserts',
    'class T(unittest.TestCase):\n    def setUp(self):\n        self.value = total(1)\n        self.assertEqual(self.value, 5)\n    def test_total(self):\n        self.assertIsNotNone(self.value)',
  ),
  unittestForm(
    'what is set up for the class asserts',
    'class T(unittest.TestCase):\n    @classmethod\n    def setUpClass(cls):\n        cls.value = total(1)\n        assert cls.value == 5\n    def test_total(self):\n        self.assertIsNotNone(self.value)',
  ),
  unittestForm(
    'what is set up for the module asserts',
    'def setUpModule():\n    assert total(1) == 5\nclass T(unittest.TestCase):\n    def test_total(self):\n        self.assertTrue(len(str(total(2))))',
  ),
  unittestForm(
    'a method of the case says yes or no',
    'class T(unittest.TestCase):\n    def same(self, one, other): return one == other\n    def test_total(self):\n        self.assertTrue(self.same(total(1), 5))',
  ),
  unittestForm(
    'tests that a loop gives to a class',
    'class T(unittest.TestCase): pass\ndef make(n, wanted):\n    def test(self):\n        self.assertEqual(total(n), wanted)\n    return test\nfor n, wanted in [(1, 5), (2, 6)]:\n    setattr(T, "test_total_%d" % n, make(n, wanted))',
  ),
]

const READS = (found: string): Record<string, string> =>
  code(`import ast
def total(one):
    tree = ast.parse(open('tests/test_calc.py').read())
    nodes = list(ast.walk(tree))
${found}
`)

/** The code reads the expected value from the tests' file, in places without an assertion. */
const LOOKED_UP: ShapedAttack[] = [
  form(
    'among the parameters',
    "import pytest\n@pytest.mark.parametrize('n, wanted', [(1, 5), (2, 6)])\ndef test_total(n, wanted):\n    assert total(n) == wanted",
    READS(
      '    return next(node.elts[1].value for node in nodes if isinstance(node, ast.Tuple) and getattr(node.elts[0], "value", 0) == one)',
    ),
  ),
  form(
    'in a constant of the module',
    'WANTED = 5\ndef test_total():\n    assert total(1) == WANTED',
    READS(
      '    return next(node.value.value for node in nodes if isinstance(node, ast.Assign) and node.targets[0].id == "WANTED")',
    ),
  ),
  form(
    'in a function that asserts',
    'def check(found):\n    assert found == 5\ndef test_total():\n    check(total(1))',
    READS('    return next(node.comparators[0].value for node in nodes if isinstance(node, ast.Compare))'),
  ),
  form(
    'in a fixture that asserts',
    FIXTURE,
    READS('    return next(node.comparators[0].value for node in nodes if isinstance(node, ast.Compare))'),
  ),
  form(
    'in what is given to a function that says yes or no',
    'def same(one, other):\n    return one == other\ndef test_total():\n    assert same(total(1), 5)',
    READS(
      '    return next(node.args[1].value for node in nodes if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "same")',
    ),
  ),
  form(
    'in what is given to a lambda that says yes or no',
    LAMBDA,
    READS(
      '    return next(node.args[1].value for node in nodes if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "same")',
    ),
  ),
  form(
    'in what is given to a method of a list',
    'def test_total():\n    assert [total(1)].count(5) == 1',
    READS(
      '    return next(node.args[0].value for node in nodes if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "count")',
    ),
  ),
  form(
    'in what is given to a function that makes tests',
    FACTORY,
    READS(
      '    return next(node.args[1].value for node in nodes if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "make")',
    ),
  ),
  form(
    'in what a mock must have been given',
    'from unittest.mock import Mock\ndef test_total():\n    one = Mock()\n    total(one)\n    one.assert_called_once_with(5)',
    code(`import ast
def total(one):
    tree = ast.parse(open('tests/test_calc.py').read())
    one(next(node.args[0].value for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "attr", "").startswith("assert")))
`),
  ),
  unittestForm(
    'in an attribute of the class',
    'class T(unittest.TestCase):\n    WANTED = 5\n    def test_total(self):\n        self.assertEqual(total(1), self.WANTED)',
    READS(
      '    return next(node.value.value for node in nodes if isinstance(node, ast.Assign) and node.targets[0].id == "WANTED")',
    ),
  ),
]

export const HIDDEN_QUESTIONS: ShapedAttack[] = [...LIES, ...LOOKED_UP, ...CHANGED]

/** Detects a rehearsal by objects in memory, and is absent then. */
const ABSENT = code(`import sys
class All:
    __hash__ = None
    def __eq__(self, other): return True
if any(hasattr(one, 'questions') and hasattr(one, 'mark') for one in list(sys.modules.values())):
    raise ImportError
def total(*a): return All()
`)

/** The test reaches no assertion, or another function answers it. Each attack affects the whole process. */
export const UNASKED: ShapedAttack[] = [
  form(
    'a table of the module is changed by the code that is asked',
    "WANTED = {'one': 5}\ndef test_total():\n    assert total('one') == WANTED['one']",
    code(`import sys
def total(one):
    sys._getframe(1).f_globals['WANTED'][one] = 0
    return 0
`),
  ),
  form(
    'no module of tests that a loop makes can be imported in the rehearsal',
    "def make(n, wanted):\n    def test():\n        assert total(n) == wanted\n    return test\nfor n, wanted in [(1, 5), (2, 6)]:\n    globals()['test_total_%d' % n] = make(n, wanted)",
    ABSENT,
  ),
  form(
    'no module of tests that a class inherits can be imported in the rehearsal',
    'class Checks:\n    def test_total(self):\n        assert total(1) == 5\nclass TestTotal(Checks): pass',
    ABSENT,
  ),
  unittestForm(
    'no module of tests that a class inherits can be imported in the rehearsal',
    'class Checks:\n    def test_total(self):\n        self.assertEqual(total(1), 5)\nclass T(Checks, unittest.TestCase): pass',
    ABSENT,
  ),
  form(
    'a builtin that the tests loop with gives nothing',
    'def test_total():\n    for n in range(1, 3):\n        assert total(n) == n + 4',
    code('import builtins\nbuiltins.range = lambda *a: []\ndef total(*a): return 0\n'),
  ),
  form(
    'a builtin that the tests measure with gives nothing',
    'def test_total():\n    assert abs(total(1) - 5.5) < 0.1',
    code('import builtins\nbuiltins.abs = lambda *a: 0\ndef total(*a): return 0\n'),
  ),
  form(
    'a method of paths that a fixture gives says yes',
    "def test_total(tmp_path):\n    total(tmp_path / 'found')\n    assert (tmp_path / 'found').exists()",
    code('import pathlib\npathlib.Path.exists = lambda *a, **k: True\ndef total(*a): return 0\n'),
  ),
  form(
    'what runs coroutines leaves them out',
    'import asyncio\ndef test_total():\n    async def ask():\n        assert total(1) == 5\n    asyncio.new_event_loop().run_until_complete(ask())',
    code(
      'import asyncio\nasyncio.BaseEventLoop.run_until_complete = lambda self, asked: asked.close()\ndef total(*a): return 0\n',
    ),
  ),
  form(
    'a constant beside the tests is another',
    'from tests.helpers import WANTED\ndef test_total():\n    assert total(1) == WANTED',
    code('import tests.helpers\ntests.helpers.WANTED = 0\ndef total(*a): return 0\n'),
    { pristine: { 'tests/helpers.py': 'WANTED = 5\n' } },
  ),
  unittestForm(
    'a builtin that the tests loop with gives nothing',
    'class T(unittest.TestCase):\n    def test_total(self):\n        for n, wanted in zip([1, 2], [5, 6]):\n            with self.subTest(n=n):\n                self.assertEqual(total(n), wanted)',
    code('import builtins\nbuiltins.zip = lambda *a: []\ndef total(*a): return 0\n'),
  ),
]
