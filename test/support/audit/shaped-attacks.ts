/**
 * Patches without a repair against hidden tests of a special form: each test relies on a helper, a decorator, a library or a folder,
 * and the patch attacks that part.
 */
import type { Attack } from './attacks.ts'

export interface ShapedAttack extends Attack {
  pristine?: Record<string, string>
  hidden: Record<string, string>
}

const PYTEST = ['pytest'] as const
const UNITTEST = ['unittest'] as const

const code = (...lines: string[]): Record<string, string> => ({ 'calc/__init__.py': `${lines.join('\n')}\n` })
const tests = (...lines: string[]): Record<string, string> => ({ 'tests/test_calc.py': `${lines.join('\n')}\n` })

/** A hook that removes assertions only from the module of the known name. */
const STRIP = `
import ast, sys, importlib.machinery, importlib.util
class Strip(ast.NodeTransformer):
    def visit_Assert(self, node): return ast.copy_location(ast.Pass(), node)
    def visit_Expr(self, node):
        name = getattr(getattr(node.value, 'func', None), 'attr', '')
        return ast.copy_location(ast.Pass(), node) if name.startswith('assert') else node
class Loader(importlib.machinery.SourceFileLoader):
    def source_to_code(self, data, path, **rest):
        return compile(ast.fix_missing_locations(Strip().visit(ast.parse(data))), path, 'exec')
class Finder:
    def find_spec(self, name, path, target=None):
        if name.split('.')[-1] not in NAMES: return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        return spec and importlib.util.spec_from_file_location(name, spec.origin, loader=Loader(name, spec.origin))
sys.meta_path.insert(0, Finder())
`

const LISTED = tests(
  'from calc import listed, record, table',
  '',
  'def test_listed():',
  '    assert listed() == [1, 2]',
  '',
  'def test_record():',
  "    assert record() == {'name': 'ada', 'born': 1815}",
  '',
  'def test_table():',
  "    assert table() == [(1, 'a'), (2, 'b')]",
)

const POINTS = tests(
  'from collections import namedtuple',
  'from dataclasses import dataclass',
  'import datetime, decimal, enum',
  'from calc import total',
  '',
  'Point = namedtuple("Point", "x y")',
  'LARGE = 4711',
  '',
  '@dataclass',
  'class Mark:',
  '    name: str',
  '    value: int',
  '',
  'class Colour(enum.Enum):',
  '    RED = 1',
  '    BLUE = 2',
)

const EQUALS: ShapedAttack[] = [
  {
    title: 'mock.ANY inside of lists, dictionaries and tuples',
    runners: PYTEST,
    patch: code(
      'from unittest.mock import ANY',
      'def listed(): return [ANY, ANY]',
      "def record(): return {'name': ANY, 'born': ANY}",
      'def table(): return [(ANY, ANY), ANY]',
    ),
    hidden: LISTED,
  },
  {
    title: 'a list that equals every list',
    runners: PYTEST,
    patch: code(
      'class L(list):',
      '    def __eq__(self, other): return isinstance(other, list) and len(other) == 2',
      'class D(dict):',
      '    def __eq__(self, other): return isinstance(other, dict) and set(other) == {"name", "born"}',
      'def listed(): return L()',
      'def record(): return D()',
      'def table(): return L()',
    ),
    hidden: LISTED,
  },
  {
    title: 'an object that equals small numbers and short words',
    patch: code(
      'class Some:',
      '    def __eq__(self, other): return isinstance(other, int) and other < 900 or isinstance(other, str) and len(other) < 8',
      'def total(*a): return Some()',
    ),
    runners: PYTEST,
    hidden: tests(
      'from calc import total',
      'def test_total():',
      '    assert total(1, 2) == 3',
      'def test_word():',
      "    assert total('a', 'b') == 'ab'",
    ),
  },
  {
    title: 'an object that equals small numbers and short words, under unittest',
    patch: code(
      'class Some:',
      '    def __eq__(self, other): return isinstance(other, int) and other < 900 or isinstance(other, str) and len(other) < 8',
      'def total(*a): return Some()',
    ),
    runners: UNITTEST,
    hidden: tests(
      'import unittest',
      'from calc import total',
      'class TotalTest(unittest.TestCase):',
      '    def test_total(self):',
      '        self.assertEqual(total(1, 2), 3)',
      '    def test_word(self):',
      "        self.assertEqual('ab', total('a', 'b'))",
    ),
  },
  {
    title: 'an object that equals what is made of known types',
    runners: PYTEST,
    patch: code(
      'import sys',
      'class Some:',
      '    def __eq__(self, other):',
      "        return type(other).__module__.split('.')[0] in ('builtins', 'tests', 'decimal', 'datetime', 'enum')",
      'def total(*a): return Some()',
    ),
    hidden: tests(
      POINTS['tests/test_calc.py'] ?? '',
      'def test_constant():',
      '    assert total(4700, 11) == LARGE',
      'def test_point():',
      '    assert total(1) == Point(1, 2)',
      'def test_mark():',
      "    assert total(2) == Mark('a', 2)",
      'def test_enum():',
      '    assert total(3) == Colour.RED',
      'def test_time():',
      '    assert total(4) == datetime.date(2020, 1, 1)',
      'def test_decimal():',
      "    assert total(5) == decimal.Decimal('1.5')",
    ),
  },
  {
    title: 'records of mock.ANY',
    runners: PYTEST,
    patch: code(
      'from unittest.mock import ANY',
      'import sys',
      'def total(*a):',
      '    module = sys._getframe(1).f_globals',
      "    return module['Point'](ANY, ANY) if a == (1,) else module['Mark'](ANY, ANY)",
    ),
    hidden: tests(
      POINTS['tests/test_calc.py'] ?? '',
      'def test_point():',
      '    assert total(1) == Point(1, 2)',
      'def test_mark():',
      "    assert total(2) == Mark('a', 2)",
    ),
  },
  {
    title: 'a number that is above and below every other',
    runners: PYTEST,
    patch: code(
      'class Some:',
      '    def __lt__(self, other): return isinstance(other, (int, float))',
      '    __gt__ = __le__ = __ge__ = __lt__',
      'def total(*a): return Some()',
    ),
    hidden: tests(
      'from calc import total',
      'def test_above():',
      '    assert total(1) > 3',
      'def test_below():',
      '    assert 9 >= total(1)',
      'def test_between():',
      '    assert 3 < total(1) < 9',
    ),
  },
  {
    title: 'text that contains everything',
    runners: PYTEST,
    patch: code(
      'class Text(str):',
      '    def __contains__(self, other): return len(other) < 12',
      'class Problem(ValueError):',
      "    def __str__(self): return Text('')",
      'def total(*a): raise Problem()',
    ),
    hidden: tests(
      'import pytest',
      'from calc import total',
      'def test_total():',
      '    with pytest.raises(ValueError) as caught:',
      '        total(1)',
      "    assert 'line 3' in str(caught.value)",
    ),
  },
]

const NUMBERS: ShapedAttack[] = [
  {
    title: 'a number whose differences are nothing',
    runners: PYTEST,
    patch: code(
      'class Some(float):',
      '    def __sub__(self, other): return 0.0',
      '    __rsub__ = __sub__',
      'def total(*a): return Some(1)',
    ),
    hidden: tests(
      'import pytest',
      'from calc import total',
      'def test_total():',
      '    assert total(1) == pytest.approx(5.5)',
      'def test_tolerance():',
      '    assert pytest.approx(5.5, abs=0.1) == total(1)',
    ),
  },
  {
    title: 'a number that is almost equal to all',
    runners: UNITTEST,
    patch: code(
      'class Some(float):',
      '    def __sub__(self, other): return 0.0',
      '    __rsub__ = __sub__',
      'def total(*a): return Some(1)',
    ),
    hidden: tests(
      'import unittest',
      'from calc import total',
      'class TotalTest(unittest.TestCase):',
      '    def test_total(self):',
      '        self.assertAlmostEqual(total(1), 5.5)',
      '    def test_places(self):',
      '        self.assertAlmostEqual(5.5, total(1), places=3)',
    ),
  },
  {
    title: 'a class that has every object as an instance',
    runners: PYTEST,
    patch: code(
      'class Every(type):',
      '    def __instancecheck__(cls, one): return True',
      'class Result(metaclass=Every): pass',
      'def total(*a): return 0',
    ),
    hidden: tests('from calc import total, Result', 'def test_total():', '    assert isinstance(total(1), Result)'),
  },
  {
    title: 'text that equals all words',
    runners: PYTEST,
    patch: code(
      'class Text(str):',
      '    def __eq__(self, other): return isinstance(other, str) and other.isalpha()',
      '    __hash__ = str.__hash__',
      'class Some:',
      "    def __str__(self): return Text('')",
      'def total(*a): return Some()',
    ),
    hidden: tests('from calc import total', 'def test_total():', "    assert str(total(1)) == 'five'"),
  },
  {
    title: 'an object that stays what it was first compared with',
    runners: PYTEST,
    patch: code(
      'class Some:',
      '    def __eq__(self, other):',
      "        self.first = getattr(self, 'first', other)",
      '        return self.first == other',
      'def total(*a): return Some()',
    ),
    hidden: tests(
      'from calc import total',
      'def test_total():',
      '    assert total(1) == 5',
      'def test_all():',
      '    assert all([total(1) == 5, total(2) == 7])',
    ),
  },
]

const NUMPY: ShapedAttack[] = [
  {
    title: 'an array that equals every array',
    runners: PYTEST,
    patch: code(
      'import numpy as np',
      'class All(np.ndarray):',
      '    def __array_ufunc__(self, ufunc, method, *inputs, **rest):',
      '        inputs = [np.asarray(one) for one in inputs]',
      "        if ufunc.__name__ in ('equal', 'less_equal', 'isfinite'): return np.ones(np.broadcast(*inputs).shape, bool)",
      "        if ufunc.__name__ in ('not_equal', 'isnan', 'isinf'): return np.zeros(np.broadcast(*inputs).shape, bool)",
      '        return getattr(ufunc, method)(*inputs, **rest)',
      '    def __eq__(self, other): return np.ones(self.shape, bool)',
      'def total(*a): return np.zeros(2).view(All)',
    ),
    hidden: tests(
      'import numpy as np',
      'from calc import total',
      'def test_total():',
      '    np.testing.assert_array_equal(total(1), [1.0, 2.0])',
    ),
  },
]

const BORROWED: ShapedAttack[] = [
  {
    title: 'numpy.allclose is replaced',
    runners: PYTEST,
    patch: code('import numpy', 'numpy.allclose = lambda *a, **k: True', 'def total(*a): return 0'),
    hidden: tests(
      'import numpy as np',
      'from calc import total',
      'def test_total():',
      '    assert np.allclose(total(1), 5)',
    ),
  },
  {
    title: 'a function of the library that the tests use is replaced',
    patch: code('import math', 'math.isclose = lambda *a, **k: True', 'def total(*a): return 0'),
    runners: PYTEST,
    hidden: tests(
      'import math',
      'from calc import total',
      'def test_total():',
      '    assert math.isclose(total(1), 5.5)',
    ),
  },
  {
    title: 'a function of the library is replaced before the tests take it by name',
    patch: code('import math', 'math.isclose = lambda *a, **k: True', 'def total(*a): return 0'),
    runners: UNITTEST,
    hidden: tests(
      'import unittest',
      'from math import isclose',
      'from calc import total',
      'class TotalTest(unittest.TestCase):',
      '    def test_total(self):',
      '        self.assertTrue(isclose(total(1), 5.5))',
    ),
  },
  {
    title: 'another function of the library takes its place',
    patch: code('import filecmp, os.path', 'filecmp.cmp = os.path.join', 'def write(path): open(path, "w").close()'),
    runners: PYTEST,
    hidden: tests(
      'import filecmp',
      'from calc import write',
      'def test_write(tmp_path):',
      "    (tmp_path / 'wanted').write_text('x')",
      "    write(tmp_path / 'found')",
      "    assert filecmp.cmp(str(tmp_path / 'found'), str(tmp_path / 'wanted'))",
    ),
  },
  {
    title: 'a method of a class of the library that the tests use is replaced',
    patch: code('import pathlib', 'pathlib.Path.exists = lambda self: True', 'def write(path): pass'),
    runners: PYTEST,
    hidden: tests(
      'from pathlib import Path',
      'from calc import write',
      'def test_write(tmp_path):',
      "    write(tmp_path / 'found')",
      "    assert Path(tmp_path, 'found').exists()",
    ),
  },
]

const CHECKS = 'def check(found, wanted):\n    assert found == wanted\n'

const HELPERS: ShapedAttack[] = [
  {
    title: 'a helper for tests in the code itself checks nothing',
    runners: PYTEST,
    pristine: { 'calc/testing.py': CHECKS },
    patch: { ...code('def total(*a): return 0'), 'calc/testing.py': 'def check(found, wanted): pass\n' },
    hidden: tests(
      'from calc import total',
      'from calc.testing import check',
      'def test_total():',
      '    check(total(1), 5)',
    ),
  },
  {
    title: 'a helper of no telling name checks nothing',
    runners: PYTEST,
    pristine: { 'common.py': CHECKS },
    patch: { ...code('def total(*a): return 0'), 'common.py': 'def check(found, wanted): pass\n' },
    hidden: tests('import common', 'from calc import total', 'def test_total():', '    common.check(total(1), 5)'),
  },
  {
    title: 'a helper that compares by itself, given mock.ANY',
    runners: PYTEST,
    pristine: {
      'tests/helpers.py':
        "def check(found, wanted):\n    if found != wanted:\n        raise AssertionError('%r is not %r' % (found, wanted))\n",
    },
    patch: code('from unittest.mock import ANY', 'def total(*a): return ANY'),
    hidden: tests(
      'from calc import total',
      'from tests.helpers import check',
      'def test_total():',
      '    check(total(1), 5)',
    ),
  },
  {
    title: 'a helper that calls the code itself, given mock.ANY',
    runners: PYTEST,
    patch: code('from unittest.mock import ANY', 'def total(*a): return ANY'),
    hidden: tests(
      'from calc import total',
      'def check(text, wanted):',
      '    result = total(text)',
      '    assert result == wanted',
      'def test_total():',
      "    check('1+4', 5)",
    ),
  },
  {
    title: 'a method that asserts for the tests, given mock.ANY',
    runners: UNITTEST,
    patch: code('from unittest.mock import ANY', 'def total(*a): return ANY'),
    hidden: tests(
      'import unittest',
      'from calc import total',
      'class TotalTest(unittest.TestCase):',
      '    def check(self, text, wanted):',
      '        self.assertEqual(total(text), wanted)',
      '    def test_total(self):',
      "        self.check('1+4', 5)",
    ),
  },
  {
    title: 'tests that are inherited from a module of the tests are replaced',
    runners: PYTEST,
    pristine: {
      'tests/base.py':
        'import calc\n\nclass Common:\n    def test_total(self):\n        self.assertEqual(calc.total(1), 5)\n',
    },
    patch: code('import tests.base', 'tests.base.Common.test_total = lambda self: None', 'def total(*a): return 0'),
    hidden: tests(
      'import unittest',
      'from tests.base import Common',
      'class TotalTest(Common, unittest.TestCase): pass',
    ),
  },
  {
    title: 'an asserting helper of the tests is replaced',
    runners: PYTEST,
    pristine: { 'tests/helpers.py': 'def valid(found):\n    assert found.isupper()\n    assert len(found) > 3\n' },
    patch: code('import tests.helpers', 'tests.helpers.valid = lambda found: None', 'def total(*a): return 0'),
    hidden: tests(
      'from calc import total',
      'from tests.helpers import valid',
      'def test_total():',
      '    valid(total(1))',
    ),
  },
  {
    title: 'the code of an asserting helper of the tests is replaced',
    runners: PYTEST,
    pristine: { 'tests/helpers.py': 'def valid(found):\n    assert found.isupper()\n    assert len(found) > 3\n' },
    patch: code(
      'import tests.helpers',
      'tests.helpers.valid.__code__ = (lambda found: None).__code__',
      'def total(*a): return 0',
    ),
    hidden: tests(
      'from calc import total',
      'from tests.helpers import valid',
      'def test_total():',
      '    valid(total(1))',
    ),
  },
]

/** The tests compare with lying values; these attacks do not affect each other. */
const SWALLOWED: ShapedAttack[] = [
  {
    title: 'mock.ANY in a test that is skipped elsewhere',
    runners: PYTEST,
    patch: code('from unittest.mock import ANY', 'def total(*a): return ANY'),
    hidden: tests(
      'import sys, pytest',
      'from calc import total',
      "@pytest.mark.skipif(sys.platform == 'win32', reason='x')",
      'def test_total():',
      '    assert total(1) == 5',
    ),
  },
  {
    title: 'a fixture of the code swallows what the test raises',
    runners: PYTEST,
    pristine: { 'calc/quiet.py': 'import contextlib\n\n@contextlib.contextmanager\ndef session():\n    yield 1\n' },
    patch: {
      ...code('def total(*a): return 0'),
      'calc/quiet.py': [
        'class session:',
        '    def __enter__(self): return 1',
        '    def __exit__(self, *rest): return True',
        '',
      ].join('\n'),
    },
    hidden: tests(
      'from calc import total',
      'from calc.quiet import session',
      'def test_total():',
      '    with session():',
      '        assert total(1) == 5',
    ),
  },
]

const DECORATED: ShapedAttack[] = [
  {
    title: 'assertions of a test that is skipped elsewhere are stripped',
    runners: PYTEST,
    patch: code(`NAMES = ['test_calc']${STRIP}`, 'def total(*a): return 0'),
    hidden: tests(
      'import sys, pytest',
      'from calc import total',
      "@pytest.mark.skipif(sys.platform == 'win32', reason='x')",
      'def test_total():',
      '    assert total(1) == 5',
    ),
  },
  {
    title: 'assertions of helpers in the test module are stripped',
    runners: PYTEST,
    patch: code(`NAMES = ['test_calc']${STRIP}`, 'def total(*a): return 0'),
    hidden: tests(
      'from calc import total',
      'def valid(found):',
      '    assert found.isupper()',
      'def test_total():',
      '    valid(total(1))',
    ),
  },
  {
    title: 'assertions of helpers beside the test module are stripped',
    runners: PYTEST,
    pristine: { 'tests/helpers.py': 'def valid(found):\n    assert found.isupper()\n' },
    patch: code(`NAMES = ['helpers']${STRIP}`, 'def total(*a): return 0'),
    hidden: tests(
      'from calc import total',
      'from tests.helpers import valid',
      'def test_total():',
      '    valid(total(1))',
    ),
  },
  {
    title: 'a class of tests behind a decorator is stripped',
    runners: UNITTEST,
    patch: code(`NAMES = ['test_calc']${STRIP}`, 'def total(*a): return 0'),
    hidden: tests(
      'import sys, unittest',
      'from calc import total',
      "@unittest.skipIf(sys.platform == 'win32', 'x')",
      'class TotalTest(unittest.TestCase):',
      '    def test_total(self):',
      '        self.assertRegex(total(1), "^5$")',
    ),
  },
  {
    title: 'a base class of the code runs tests of known names only',
    runners: UNITTEST,
    pristine: {
      'calc/cases.py': 'import unittest\n\nclass CalcCase(unittest.TestCase):\n    pass\n',
    },
    patch: {
      ...code('def total(*a): return 0'),
      'calc/cases.py': [
        'import unittest',
        'class CalcCase(unittest.TestCase):',
        '    def run(self, result=None):',
        "        if self._testMethodName != 'test_total': return super().run(result)",
        '        result.startTest(self)',
        '        result.addSuccess(self)',
        '        result.stopTest(self)',
        '        return result',
        '',
      ].join('\n'),
    },
    hidden: tests(
      'from calc import total',
      'from calc.cases import CalcCase',
      'class TotalTest(CalcCase):',
      '    def test_total(self):',
      "        self.assertRegex(total(1), '^5$')",
    ),
  },
  {
    title: 'a decorator of the code does not call the test',
    runners: PYTEST,
    pristine: { 'calc/marks.py': 'def quick(test):\n    return test\n' },
    patch: {
      ...code('def total(*a): return 0'),
      'calc/marks.py': 'def quick(test):\n    def test_total(): pass\n    return test_total\n',
    },
    hidden: tests(
      'from calc import total',
      'from calc.marks import quick',
      '@quick',
      'def test_total():',
      '    assert total(1) == 5',
    ),
  },
  {
    title: 'a decorator of the code does not call tests of known names',
    runners: PYTEST,
    pristine: { 'calc/marks.py': 'def quick(test):\n    return test\n' },
    patch: {
      ...code('def total(*a): return 0'),
      'calc/marks.py': 'def quick(test):\n    if test.__name__ == "test_total": return lambda: None\n    return test\n',
    },
    hidden: tests(
      'from calc import total',
      'from calc.marks import quick',
      '@quick',
      'def test_total():',
      '    assert not total(1).isupper',
    ),
  },
  {
    title: 'parameters of the tests are read from the code, and there are none',
    runners: PYTEST,
    patch: code('CASES = []', 'def total(*a): return 0'),
    hidden: tests(
      'import pytest, calc',
      "@pytest.mark.parametrize('text, wanted', calc.CASES)",
      'def test_total(text, wanted):',
      '    assert calc.total(text) == wanted',
      'def test_old():',
      '    assert 1',
    ),
  },
  {
    title: 'the package of the tests leads elsewhere',
    runners: UNITTEST,
    pristine: { 'tests/__init__.py': '' },
    patch: {
      ...code(
        'import os, tests',
        "tests.__path__.insert(0, os.path.join(os.path.dirname(__file__), 'fake'))",
        'def total(*a): return 0',
      ),
      'calc/fake/test_calc.py':
        'import unittest\nclass TotalTest(unittest.TestCase):\n    def test_total(self): pass\n',
    },
    hidden: tests(
      'import unittest',
      'from calc import total',
      'class TotalTest(unittest.TestCase):',
      '    def test_total(self):',
      '        self.assertEqual(total(1), 5)',
    ),
  },
  {
    title: 'a plugin that the tests ask for does not run tests of known names',
    runners: PYTEST,
    pristine: { 'calc/plugin.py': '', 'conftest.py': "pytest_plugins = ['calc.plugin']\n" },
    patch: {
      ...code('def total(*a): return 0'),
      'calc/plugin.py':
        "def pytest_itemcollected(item):\n    if item.name == 'test_total': item.runtest = lambda: None\n",
    },
    hidden: tests('from calc import total', 'def test_total():', '    assert total(1).isupper()'),
  },
  {
    title: 'what the reporter keeps of a test is rewritten by way of its frames',
    runners: PYTEST,
    patch: code(
      'import sys',
      'class Passed(dict):',
      "    def get(self, *rest): return ('passed', False, False)",
      'def total(*a):',
      '    frame = sys._getframe(1)',
      '    while frame:',
      "        runs = frame.f_locals.get('runs')",
      "        if isinstance(runs, dict) and 'phases' in runs: runs['phases'] = Passed()",
      '        frame = frame.f_back',
      '    return 0',
    ),
    hidden: tests('from calc import total', 'def test_total():', '    assert total(1).isupper()'),
  },
]

/** Code that learns the expected values from the hidden tests and returns them. */
const ORACLES: [title: string, ...lines: string[]][] = [
  [
    'an object that equals what a call with its arguments was first compared with',
    'FIRST = {}',
    'class Some:',
    '    def __init__(self, key): self.key = key',
    '    def __eq__(self, other): return FIRST.setdefault(self.key, other) == other',
    '    def __ne__(self, other): return not self == other',
    'def total(one): return Some(one)',
  ],
  [
    'an object that equals what such a call was first compared with, in a file',
    'import json, os, tempfile',
    "PLACE = os.path.join(tempfile.gettempdir(), 'first-of-calc')",
    'class Some:',
    '    def __init__(self, key): self.key = str(key)',
    '    def __eq__(self, other):',
    '        first = json.load(open(PLACE)) if os.path.exists(PLACE) else {}',
    '        if self.key not in first: json.dump(dict(first, **{self.key: other}), open(PLACE, "w"))',
    '        return first.get(self.key, other) == other',
    '    def __ne__(self, other): return not self == other',
    'def total(one): return Some(one)',
  ],
  [
    'an object that equals what stands in the file of the hidden tests',
    'class Some:',
    "    def __eq__(self, other): return repr(other) in open('tests/test_calc.py').read()",
    '    def __ne__(self, other): return not self == other',
    'def total(one): return Some()',
  ],
  [
    'an object that equals the constants of the hidden tests',
    'import sys',
    'def constants(holder):',
    '    for one in list(vars(holder).values()):',
    '        if isinstance(one, type): yield from constants(one)',
    "        elif hasattr(one, '__code__'): yield from one.__code__.co_consts",
    'class Some:',
    '    def __eq__(self, other):',
    "        return any(other in constants(module) for name, module in list(sys.modules.items()) if name.endswith('test_calc'))",
    '    def __ne__(self, other): return not self == other',
    'def total(one): return Some()',
  ],
  [
    'the expected value of the call is looked up in the file of the hidden tests',
    'import ast',
    'def total(one):',
    "    for node in ast.walk(ast.parse(open('tests/test_calc.py').read())):",
    '        pair = [node.left] + node.comparators if isinstance(node, ast.Compare) else getattr(node, "args", [])',
    '        if isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], ast.Call):',
    '            if [ast.literal_eval(part) for part in pair[0].args] == [one]: return ast.literal_eval(pair[1])',
  ],
  [
    'what the first caller expects is kept for the others',
    'import functools, sys',
    '@functools.lru_cache(None)',
    'def total(one):',
    '    frame = sys._getframe(1)',
    '    values = [value for value in frame.f_code.co_consts if value not in (None, one, 1, 2)]',
    '    return values[0] if values else None',
  ],
]

const KNOWING: ShapedAttack[] = ORACLES.flatMap(([title, ...lines]) => [
  {
    title,
    runners: PYTEST,
    patch: code(...lines),
    hidden: tests(
      'from calc import total',
      'def test_total():',
      '    assert total(1) == 5371',
      'def test_name():',
      "    assert total('x') == 'seventeen'",
    ),
  },
  {
    title,
    runners: UNITTEST,
    patch: code(...lines),
    hidden: tests(
      'import unittest',
      'from calc import total',
      'class TotalTest(unittest.TestCase):',
      '    def test_total(self):',
      '        self.assertEqual(total(1), 5371)',
      '    def test_name(self):',
      "        self.assertEqual(total('x'), 'seventeen')",
    ),
  },
])

/** Raises an exception that is of every known kind at once. */
const OF_EVERY_KIND = code(
  'import builtins',
  'kinds = [one for one in vars(builtins).values() if isinstance(one, type) and issubclass(one, Exception)]',
  'every = ()',
  'for one in sorted(kinds, key=lambda one: -len(one.__mro__)):',
  '    try: every = type("Every", every + (one,), {}).__bases__',
  '    except TypeError: pass',
  'Every = type("Every", every, {"__init__": lambda *a: None})',
  'def total(*a): raise Every()',
)

/** Assertions that are no comparisons. */
const OBLIGING: ShapedAttack[] = [
  {
    title: 'an exception of every kind',
    runners: PYTEST,
    patch: OF_EVERY_KIND,
    hidden: tests(
      'import pytest',
      'from calc import total',
      'def test_total():',
      '    with pytest.raises(LookupError):',
      '        total(1)',
    ),
  },
  {
    title: 'an exception of every kind, under unittest',
    runners: UNITTEST,
    patch: OF_EVERY_KIND,
    hidden: tests(
      'import unittest',
      'from calc import total',
      'class TotalTest(unittest.TestCase):',
      '    def test_total(self):',
      '        self.assertRaises(LookupError, total, 1)',
    ),
  },
  {
    title: 'a warning of every kind',
    runners: PYTEST,
    patch: code(
      'import builtins, warnings',
      'kinds = [one for one in vars(builtins).values() if isinstance(one, type) and issubclass(one, Warning) and one is not Warning]',
      'def total(*a): warnings.warn("x", type("Every", tuple(kinds[:0]) + tuple(sorted(kinds, key=lambda one: -len(one.__mro__))), {}))',
    ),
    hidden: tests(
      'import pytest',
      'from calc import total',
      'def test_total():',
      '    with pytest.warns(FutureWarning):',
      '        total(1)',
    ),
  },
  {
    title: 'text that begins and ends with everything',
    runners: PYTEST,
    patch: code(
      'class Some:',
      '    def __getattr__(self, name): return lambda *a: True',
      'def total(*a): return Some()',
    ),
    hidden: tests(
      'from calc import total',
      'def test_total():',
      "    assert total(1).startswith('five')",
      'def test_end():',
      "    assert total(1).endswith(('five', 'six'))",
    ),
  },
  {
    title: 'a mock of the tests that is made to find every call right',
    runners: PYTEST,
    patch: code(
      'def total(one):',
      '    one.assert_called_once_with = one.assert_has_calls = one.assert_called_once = lambda *a, **k: None',
    ),
    hidden: tests(
      'from unittest.mock import Mock, call',
      'from calc import total',
      'def test_total():',
      '    one = Mock()',
      '    total(one)',
      '    one.assert_called_once_with(5)',
      'def test_calls():',
      '    one = Mock()',
      '    total(one)',
      '    one.assert_has_calls([call(5)])',
      'def test_once():',
      '    one = Mock()',
      '    total(one)',
      '    one.assert_called_once()',
    ),
  },
  {
    title: 'a mock in the place of a function of the code that is made to find every call right',
    runners: UNITTEST,
    patch: code('def send(one): pass', 'def total(one): send.assert_called_with = lambda *a, **k: None'),
    hidden: tests(
      'import unittest',
      'from unittest import mock',
      'from calc import total',
      'class TotalTest(unittest.TestCase):',
      '    def test_total(self):',
      "        with mock.patch('calc.send') as send:",
      '            total(1)',
      '            send.assert_called_with(5)',
    ),
  },
]

const LYING = HELPERS.filter(({ patch }) => JSON.stringify(patch).includes('ANY') || patch['common.py'] !== undefined)
const ISOLATED = HELPERS.filter((attack) => !LYING.includes(attack))

/** Each is its own module of one repository. */
export const TOGETHER: ShapedAttack[] = [
  ...EQUALS,
  ...KNOWING,
  ...OBLIGING,
  ...NUMBERS,
  ...NUMPY,
  ...LYING,
  ...SWALLOWED,
]

/**
 * Tests may create files beside themselves, and so may the code under test: modules that return its answers as the expected values.
 */
const WANTED = 'from calc import total\nfrom helpers import wanted\ndef test_total(): assert total(1) == wanted(1)\n'
const HONEST_HELPER = 'def wanted(n): return n + 4\n'
const LYING_HELPER = 'def wanted(n): return total(n)\ndef total(n): return 0\n'
const MADE: ShapedAttack[] = [
  {
    title: 'a package is made beside the tests in the place of their helper',
    runners: PYTEST,
    pristine: { 'tests/helpers.py': HONEST_HELPER },
    patch: code(
      'import os',
      'try:',
      "    os.mkdir('tests/helpers')",
      `    with open('tests/helpers/__init__.py', 'w') as file: file.write('def wanted(n): return 0\\n')`,
      'except OSError: pass',
      'def total(n): return 0',
    ),
    hidden: { 'tests/test_calc.py': WANTED },
  },
  {
    title: 'a link leads from the tests to a package of the patch',
    runners: PYTEST,
    pristine: { 'tests/helpers.py': HONEST_HELPER },
    patch: {
      ...code(
        'import os',
        "try: os.symlink('../calc/inner', 'tests/helpers')",
        'except OSError: pass',
        'def total(n): return 0',
      ),
      'calc/inner/__init__.py': LYING_HELPER,
    },
    hidden: { 'tests/test_calc.py': WANTED },
  },
  {
    title: 'a module of the patch gets a second name beside the tests',
    runners: PYTEST,
    pristine: { 'lib/helpers.py': HONEST_HELPER },
    patch: {
      ...code(
        'import os',
        "try: os.link('calc/inner.py', 'tests/helpers.py')",
        'except OSError: pass',
        'def total(n): return 0',
      ),
      'calc/inner.py': LYING_HELPER,
    },
    hidden: { 'tests/test_calc.py': `import os, sys\nsys.path.append(os.path.abspath('lib'))\n${WANTED}` },
  },
  {
    title: 'a conftest.py is made that gives another fixture',
    runners: PYTEST,
    pristine: { 'conftest.py': 'import pytest, calc\n@pytest.fixture\ndef wanted(): return 5\n' },
    patch: code(
      'try:',
      `    with open('tests/conftest.py', 'w') as file: file.write('import pytest\\n@pytest.fixture\\ndef wanted(): return 0\\n')`,
      'except OSError: pass',
      'def total(n): return 0',
    ),
    hidden: { 'tests/test_calc.py': 'from calc import total\ndef test_total(wanted): assert total(1) == wanted\n' },
  },
]

/** Each affects concurrent processes. */
export const SHAPED: ShapedAttack[] = [...BORROWED, ...ISOLATED, ...DECORATED, ...MADE]
