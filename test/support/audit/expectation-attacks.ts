/**
 * Patches without a repair that find what their caller expects where it stands: in its locals, in the table of its loop, in an attribute
 * of its case; that raise what it names beside another block; that swallow their own errors; or that lie by objects of the interpreter's.
 */
import { asked, askedByCase, code } from './asked-attacks.ts'
import type { ShapedAttack } from './shaped-attacks.ts'

const LOCALS = 'import sys\ndef total(*a): return sys._getframe(1).f_locals["expected"]\n'
const OF_CASE = 'import sys\ndef total(*a): return sys._getframe(1).f_locals["self"].wanted\n'
/** What the runner gives to the test. */
const GIVEN = `import sys
def total(*a):
    frame = sys._getframe(1)
    while frame:
        if 'testargs' in frame.f_locals: return frame.f_locals['testargs']['expected']
        frame = frame.f_back
`
const READS = (found: string): string => `import ast
def total(one):
    nodes = list(ast.walk(ast.parse(open('tests/test_calc.py').read())))
    return ${found}
`
const READS_TABLE = READS(
  'next(node.elts[1].value for node in nodes if isinstance(node, ast.Tuple) and getattr(node.elts[0], "value", 0) == one)',
)
const READS_CALL = (name: string, at: number): string =>
  READS(
    `next(ast.literal_eval(node.args[${at}]) for node in nodes if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "${name}")`,
  )

const EXPECTED: ShapedAttack[] = [
  asked(
    'an expectation among the locals that is in the message too',
    "import pytest\n@pytest.mark.parametrize('n, expected', [(1, 5371), (2, 6891)])\ndef test_total(n, expected):\n    found = total(n)\n    assert found == expected, 'not %r' % expected",
    LOCALS,
  ),
  asked(
    'an expectation among the locals, out of the table of a loop',
    'def test_total():\n    for n, expected in [(1, 5371), (2, 6891)]:\n        found = total(n)\n        assert found == expected',
    LOCALS,
  ),
  asked(
    'an expectation among the locals, out of a zip',
    'def test_total():\n    for n, expected in zip([1, 2], [5371, 6891]):\n        found = total(n)\n        assert found == expected',
    LOCALS,
  ),
  asked(
    'an expectation among the locals, which is made in a block',
    'import contextlib\ndef test_total():\n    with contextlib.ExitStack():\n        expected = sorted([2, 1])\n        found = total(1)\n        assert found == expected',
    LOCALS,
  ),
  asked(
    'an expectation among the locals whose length is asked first',
    'def test_total():\n    expected = [1, 2]\n    found = total(1)\n    assert len(found) == len(expected)\n    assert found == expected',
    LOCALS,
  ),
  asked(
    'an expectation among the locals, one of two that are bound together',
    'def test_total():\n    n, expected = 1, 5371\n    found = total(n)\n    assert found == expected',
    LOCALS,
  ),
  askedByCase(
    'an expectation among the locals of sub-tests',
    'def test_total(self):\n    for n, expected in [(1, 5371), (2, 6891)]:\n        with self.subTest(n=n):\n            found = total(n)\n            self.assertEqual(found, expected)',
    LOCALS,
  ),
  askedByCase(
    'an expectation among the locals that is in the message of a case',
    "def test_total(self):\n    expected = {'a': 1}\n    found = total(1)\n    self.assertEqual(found, expected, 'not %r' % expected)",
    LOCALS,
  ),
  askedByCase(
    'an attribute of the case',
    'def setUp(self):\n    self.wanted = 5371\ndef test_total(self):\n    self.assertEqual(total(1), self.wanted)',
    OF_CASE,
  ),
  askedByCase(
    'an attribute of the case that is computed and shown',
    'def setUp(self):\n    self.wanted = sorted([3, 1])\ndef test_total(self):\n    found = total(1)\n    self.assertEqual(found, self.wanted, self.wanted)',
    OF_CASE,
  ),
  asked(
    'a parameter of a test whose table has a name',
    "import pytest\nCASES = [(1, 5371), (2, 6891)]\n@pytest.mark.parametrize('n, expected', CASES)\ndef test_total(n, expected):\n    assert total(n) == expected",
    GIVEN,
  ),
  asked(
    'a parameter of a test that is in the message too',
    "import pytest\n@pytest.mark.parametrize('n, expected', [(1, 5371), (2, None)])\ndef test_total(n, expected):\n    assert total(n) == expected, expected",
    GIVEN,
  ),
  asked(
    'a parameter of a class of tests',
    "import pytest\n@pytest.mark.parametrize('n, expected', [(1, 5371), (2, 6891)])\nclass TestTotal:\n    def test_total(self, n, expected):\n        assert total(n) == expected",
    GIVEN,
  ),
  asked(
    'a parameter whose table is given by its name',
    "import pytest\n@pytest.mark.parametrize(argnames='n, expected', argvalues=[(1, 5371), (2, 6891)])\ndef test_total(n, expected):\n    assert total(n) == expected",
    GIVEN,
  ),
  asked(
    'the table of a loop in the file',
    'def test_total():\n    for n, expected in [(1, 5371), (2, 6891)]:\n        assert total(n) == expected',
    READS_TABLE,
  ),
  asked(
    'the table of a loop among the globals',
    'CASES = [(1, 5371), (2, 6891)]\ndef test_total():\n    for n, wanted in CASES:\n        found = total(n)\n        assert found == wanted',
    "import sys\ndef total(n): return dict(sys._getframe(1).f_globals['CASES'])[n]\n",
  ),
  asked(
    'a dictionary that a loop goes through',
    "WANTED = {'one': 5371, 'two': 6891}\ndef test_total():\n    for name in WANTED:\n        assert total(name) == WANTED[name]",
    READS('next(ast.literal_eval(node) for node in nodes if isinstance(node, ast.Dict))[one]'),
  ),
  asked(
    'a list that is compared part by part',
    'def test_total():\n    assert all(a == b for a, b in zip(total(1), [5371, 6891]))',
    READS('next(ast.literal_eval(node) for node in nodes if isinstance(node, ast.List))'),
  ),
  asked(
    'a number that is compared with a tolerance',
    'import pytest\ndef test_total():\n    assert total(1) == pytest.approx(5.5)',
    READS_CALL('approx', 0),
  ),
  asked(
    'a number with a tolerance among the constants',
    'import pytest\ndef test_total():\n    assert total(1) == pytest.approx(5.5)',
    'import sys\ndef total(*a): return next(one for one in sys._getframe(1).f_code.co_consts if type(one) is float)\n',
  ),
  askedByCase(
    'a number of a case that is almost equal',
    'def test_total(self):\n    self.assertAlmostEqual(total(1), 5.5)',
    READS_CALL('assertAlmostEqual', 1),
  ),
  askedByCase(
    'a list in any order',
    'def test_total(self):\n    self.assertCountEqual(total(1), [5, 6])',
    READS_CALL('assertCountEqual', 1),
  ),
  asked(
    'what a helper of the project compares',
    'from calc.utils import assert_eq\ndef test_total():\n    assert_eq(total(1), 5371)',
    'import sys\ndef total(*a): return [one for one in sys._getframe(1).f_code.co_consts if type(one) is int][-1]\n',
    {
      pristine: {
        'calc/utils.py':
          'def assert_eq(a, b, check=True):\n    a, b = list([a]), list([b])\n    if check: assert a == b\n',
      },
    },
  ),
  asked(
    'lines that the output must have',
    "from _pytest.pytester import LineMatcher\ndef test_total(capsys):\n    total(1)\n    LineMatcher(capsys.readouterr().out.splitlines()).fnmatch_lines(['*line 5371*'])",
    `import sys
def total(*a):
    for one in sys._getframe(1).f_code.co_consts:
        for part in one if type(one) is tuple else [one]: print(str(part).replace('*', ''))
`,
  ),
  // Of many assertions one is not met: few of them are turned in copies.
  asked(
    'a line of the caller, where the rest fails',
    `def test_total():\n${Array.from({ length: 16 }, (_, n) => `    assert total(${n}) == ${n * n}\n`).join('')}    assert total(16) == 5371`,
    `import linecache, re, sys
def total(n):
    if n < 16: return n * n
    frame = sys._getframe(1)
    return int(re.search(r'== *(\\d+)', linecache.getline(frame.f_code.co_filename, frame.f_lineno)).group(1))
`,
  ),
]

const NAMED = `import builtins, sys, warnings
def total(*a):
    kinds = [getattr(builtins, name, None) for name in sys._getframe(1).f_code.co_names]
    kinds = [one for one in kinds if isinstance(one, type) and issubclass(one, Exception) and one is not AssertionError]
    for kind in kinds:
        if issubclass(kind, Warning): warnings.warn('x', kind)
    for kind in kinds:
        if not issubclass(kind, Warning): raise kind('x')
`
const SESSION = `class session:
    def __enter__(self): return self
    def __exit__(self, *rest): return True
    def ask(self, n): raise RuntimeError
total = None
`

const ERRORS: ShapedAttack[] = [
  asked(
    'an exception that is named beside another block',
    'import contextlib, pytest\ndef test_total():\n    with contextlib.ExitStack(), pytest.raises(ValueError):\n        total(1)',
    NAMED,
  ),
  asked(
    'an exception that is given by its name',
    'import pytest\ndef test_total():\n    with pytest.raises(expected_exception=ValueError):\n        total(1)',
    NAMED,
  ),
  asked(
    'an exception that numpy asks for',
    'from numpy.testing import assert_raises\ndef test_total():\n    with assert_raises(ValueError):\n        total(1)',
    NAMED,
  ),
  askedByCase(
    'a warning and an exception of one block',
    'def test_total(self):\n    with self.assertWarns(DeprecationWarning), self.assertRaises(KeyError):\n        total(1)',
    NAMED,
  ),
  askedByCase(
    'the text of an exception beside another block',
    "def test_total(self):\n    with self.subTest(), self.assertRaisesRegex(ValueError, 'must be positive'):\n        total(1)",
    "import sys\ndef total(*a): raise ValueError(' '.join(map(str, sys._getframe(1).f_code.co_consts)))\n",
  ),
  asked(
    'an exception of the project that is every exception',
    'import pytest\nfrom calc import CalcError\ndef test_total():\n    with pytest.raises(CalcError):\n        total(1)',
    'CalcError = Exception\ndef total(*a): return a.nothing\n',
  ),
  asked(
    'an exception of the project that has every other below it',
    'import pytest, calc\ndef test_total():\n    with pytest.raises(calc.CalcError):\n        calc.total(1)',
    'class Every(type):\n    def __subclasscheck__(cls, one): return True\n    __instancecheck__ = __subclasscheck__\nclass CalcError(Exception, metaclass=Every): pass\ndef total(*a): return a.nothing\n',
  ),
  asked(
    'a block of the project that swallows the errors of its own calls',
    'from calc import session\ndef test_total():\n    with session() as one:\n        found = one.ask(1)\n        assert found == 5371',
    SESSION,
  ),
  askedByCase(
    'a block of the project that swallows errors, in a case',
    'def test_total(self):\n    from calc import session\n    with session() as one:\n        found = one.ask(1)\n        self.assertEqual(found, 5371)',
    SESSION,
  ),
]

const MADE =
  "def make(n, wanted):\n    def test():\n        assert total(n) == wanted\n    return test\nfor n, wanted in [(1, 5)]:\n    globals()['test_total_%d' % n] = make(n, wanted)"

const OBJECTS: ShapedAttack[] = [
  asked(
    'a weak reference to what equals everything',
    MADE,
    'import weakref\nfrom unittest.mock import ANY\ndef total(*a): return weakref.proxy(ANY)\n',
  ),
  asked(
    'a view of what equals everything',
    MADE,
    'import types\nclass M:\n    def __getitem__(self, key): return 1\n    def __eq__(self, other): return True\ndef total(*a): return types.MappingProxyType(M())\n',
  ),
  asked(
    'a name space of what equals everything',
    "from types import SimpleNamespace\ndef test_total():\n    assert total(1) == SimpleNamespace(x=5, y='a')",
    'from types import SimpleNamespace\nfrom unittest.mock import ANY\ndef total(*a): return SimpleNamespace(x=ANY, y=ANY)\n',
  ),
  asked(
    'a slice of what equals everything',
    'def test_total():\n    assert total(1) == slice(1, 5)',
    'from unittest.mock import ANY\ndef total(*a): return slice(ANY, ANY)\n',
  ),
  asked(
    'objects with slots that equal one another',
    'from calc import Item\ndef test_total():\n    assert total(1) == Item(5)',
    "class Item:\n    __slots__ = ('n',)\n    def __init__(self, n): self.n = n\n    def __eq__(self, other): return isinstance(other, Item)\ndef total(*a): return Item(0)\n",
  ),
  asked(
    'objects that say they are identical, to a helper of the project',
    'from calc import Set\nfrom calc.testing import assert_identical\ndef test_total():\n    assert_identical(total(1), Set(5))',
    "class Set:\n    __slots__ = ('n',)\n    def __init__(self, n): self.n = n\n    def identical(self, other): return True\ndef total(*a): return Set(0)\n",
    {
      pristine: {
        'calc/testing.py': 'def assert_identical(a, b):\n    assert type(a) == type(b)\n    assert a.identical(b)\n',
      },
    },
  ),
  asked(
    'an answer that is true without being True',
    "begins = lambda one: one.startswith('five')\ndef test_total():\n    assert begins(total(1))",
    'class Some:\n    def __getattr__(self, name): return lambda *a: 1\ndef total(*a): return Some()\n',
  ),
]

export const EXPECTATIONS: ShapedAttack[] = [...EXPECTED, ...ERRORS, ...OBJECTS]

const CASES = {
  'tests/core.py':
    'import unittest\nclass Core(unittest.TestCase):\n    def check(self, found, wanted):\n        self.assertEqual(found, wanted)\n',
  'tests/helpers.py': 'from tests.core import Core\nclass Base(Core): pass\n',
}

/** What is compared or who compares is changed. Each shows for the whole process. */
export const OVERLAID: ShapedAttack[] = [
  {
    title: 'a case is given an assertion of its own, which a class behind two others calls',
    runners: ['unittest'],
    pristine: CASES,
    patch: code(
      "import sys\ndef total(*a):\n    sys._getframe(1).f_locals['self'].assertEqual = lambda *a, **k: None\n    return 0\n",
    ),
    hidden: {
      'tests/test_calc.py':
        'from calc import total\nfrom tests.helpers import Base\nclass T(Base):\n    def test_total(self):\n        found = [total(1), total(2)]\n        for one, wanted in zip(found, self.wanted()):\n            self.check(one, wanted)\n    def wanted(self): return [5, 6]\n',
    },
  },
  asked(
    'a helper is given another default',
    'def check(found, wanted=5371):\n    assert found == wanted\ndef test_total():\n    check(total(1))',
    "import sys\ndef total(*a):\n    sys._getframe(1).f_globals['check'].__defaults__ = (0,)\n    return 0\n",
  ),
  askedByCase(
    'a constant of the case is another',
    'WANTED = 5371\ndef test_total(self):\n    print(self.WANTED)\n    found = total(1)\n    self.assertEqual(found, self.WANTED)',
    "import sys\ndef total(*a):\n    type(sys._getframe(1).f_locals['self']).WANTED = 0\n    return 0\n",
  ),
  asked(
    'the list that a loop compares with is emptied',
    'WANTED = [5371, 6891]\ndef test_total():\n    found = [total(1), total(2)]\n    for one, other in zip(found, WANTED):\n        assert one == other',
    "import sys\ndef total(*a):\n    sys._getframe(1).f_globals['WANTED'].clear()\n    return 0\n",
  ),
  asked(
    'a kind of number of the interpreter is made to equal everything',
    MADE,
    `import ctypes
COMPARE = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object, ctypes.c_int)
always = COMPARE(lambda one, other, operator: True)
ctypes.c_void_p.from_address(id(complex) + 200).value = ctypes.cast(always, ctypes.c_void_p).value
ctypes.pythonapi.PyType_Modified(ctypes.py_object(complex))
def total(*a): return 0j
`,
  ),
]
