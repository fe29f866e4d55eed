/** Honest tests whose expectations stand in locals, tables and attributes, and that use blocks, errors and records of every sort: an audit must agree. */
import type { HonestTests } from './honest.ts'

const REPAIR = `import contextlib, logging, types, weakref
class CalcError(Exception): pass
class Bad(CalcError, ValueError): pass
class Two(CalcError, TypeError, IndexError): pass
class Item:
    def __init__(self, n, note=''): self.n, self.note = n, note
    def __eq__(self, other): return isinstance(other, Item) and self.n == other.n
    def identical(self, other): return type(self) is type(other) and (self.n, self.note) == (other.n, other.note)
    def equals(self, other): return self == other
def total(n):
    if not isinstance(n, int): raise TypeError('no number')
    if n < 0: raise Bad('must be positive')
    return n + 4
def name(n): return None if n == 0 else 'n%d' % n
def number(text): return int(text[1:])
def made(n, note=''): return Item(n + 4, note)
def space(n): return types.SimpleNamespace(n=n + 4, parts=[n])
def view(n): return types.MappingProxyType({'n': n + 4})
def part(n): return slice(n, n + 4)
HELD = Item(5)
def held(): return weakref.proxy(HELD)
def is_even(n): return n % 2 == 0
def say(n):
    print('line %d' % total(n))
    logging.getLogger('calc').info('line %d', total(n))
def numbers(n): return [n + 0.5, n + 1.5]
@contextlib.contextmanager
def ignored(*kinds):
    try: yield
    except kinds: pass
class session:
    closed = False
    def __enter__(self): return self
    def __exit__(self, kind, error, trace):
        self.closed = True
        return kind is not None and issubclass(kind, KeyError)
    def ask(self, n): return total(n)
class asession(session):
    async def __aenter__(self): return self
    async def __aexit__(self, *rest): self.closed = True
`

const RAISES = `import functools
def raises(*kinds):
    def wrap(test):
        @functools.wraps(test)
        def run(*a, **k):
            try: test(*a, **k)
            except kinds: return
            raise AssertionError('no error')
        return run
    return wrap
`

type More = Pick<HonestTests, 'pristine'>

function asked(title: string, text: string, more: More = {}): HonestTests {
  return {
    title,
    runner: 'pytest',
    patch: { 'calc/__init__.py': REPAIR },
    ...more,
    hidden: { 'tests/test_calc.py': text },
  }
}

function askedByCase(title: string, text: string, more: More = {}): HonestTests {
  return { ...asked(title, text, more), runner: 'unittest' }
}

export const HONEST_EXPECTATIONS: HonestTests[] = [
  asked(
    'expectations in loops, messages, blocks and tuples',
    `import contextlib, pytest
from calc import name, number, total
CASES = [(1, 5), (2, 6)]
WANTED = {'a': 5, 'b': 6}
NUMBERS = {'a': 1, 'b': 2}
@pytest.mark.parametrize('n, expected', [(1, 5), (2, 6)])
def test_message(n, expected):
    found = total(n)
    assert found == expected, 'not %r but %r' % (expected, found)
@pytest.mark.parametrize('n, expected', CASES)
class TestTable:
    def test_table(self, n, expected):
        assert total(n) == expected
    def test_back(self, n, expected):
        assert expected - 4 == n
def test_loop():
    for n, expected in CASES:
        found = total(n)
        assert found == expected
    for number_of, expected in enumerate([4, 5, 6]):
        assert total(number_of) == expected
    for (n, text) in {1: 'n1', 2: 'n2'}.items():
        assert name(n) == text
        assert number(text) == n
    for one, wanted in zip([total(1), total(2)], [5, 6]): assert one == wanted
def test_names():
    for key in WANTED:
        assert total(NUMBERS[key]) == WANTED[key]
def test_both_ways():
    for n, text in [(1, 'n1'), (2, 'n2')]:
        assert name(n) == text
        assert number(text) == n
def test_round():
    for n in (1, 2, 3):
        assert number(name(n)) == n
        expected = n
        found = number(name(expected))
        assert found == expected
def test_none():
    for n, wanted in [(0, None), (1, 'n1')]:
        assert name(n) == wanted
@pytest.mark.parametrize('n, wanted', [(0, None), (1, 'n1')])
def test_none_of(n, wanted):
    assert name(n) == wanted
    if wanted is None:
        assert name(n) is wanted
def test_grown(tmp_path):
    expected = []
    for n in range(3):
        expected.append(n + 4)
    expected += [7]
    assert [total(n) for n in range(4)] == expected
    with contextlib.ExitStack():
        n, expected = 1, [5]
        found = [total(n)]
        assert len(found) == len(expected)
        assert found == expected
        for one, other in zip(found, expected):
            assert one == other
def test_steps():
    steps = iter([1, 2, 3])
    assert total(next(steps)) == 5
    assert total(next(steps)) == 6
    assert total(next(steps)) == 7, 'the last'
    assert next(steps, None) == None
def test_branches():
    if total(1) == 5: expected = 'n1'
    else: expected = 'n2'
    assert name(1) == expected; assert name(1) == expected
    assert name(2) == \\
        'n2'
    text = '''n1
n2'''
    assert '\\n'.join([name(1), name(2)]) == text
`,
  ),
  asked(
    'exceptions beside other blocks, by keyword and by parameter',
    `import contextlib, pytest, warnings
from calc import Bad, CalcError, Two, total
import calc
def test_blocks():
    with contextlib.ExitStack(), pytest.raises(ValueError):
        total(-1)
    with pytest.raises(CalcError), contextlib.ExitStack() as stack:
        total(-1)
@pytest.mark.parametrize('make', [Bad, Two])
def test_two_kinds(make):
    def fail(): raise make('x')
    with pytest.raises(CalcError): fail()
    with pytest.raises(calc.CalcError, match='x'):
        fail()
    kind = CalcError
    with pytest.raises(kind): fail()
    try: fail()
    except CalcError as error: assert str(error) == 'x'
    try: fail()
    except (calc.CalcError, KeyError) as error:
        assert error.args == ('x',)
def test_swallowing_blocks():
    with contextlib.suppress(ValueError), pytest.raises(ValueError):
        total(-1)
    with contextlib.suppress(Exception) as nothing, \\
            (pytest.raises(ValueError, match='positive')) as caught:  # in parentheses
        total(-1)
    with contextlib.suppress(Exception), contextlib.ExitStack(), pytest.raises((TypeError, CalcError)): total(-1)
def test_keyword():
    with pytest.raises(expected_exception=ValueError, match='positive'):
        total(-1)
    with pytest.raises(calc.CalcError):
        total(-1)
    pytest.raises((TypeError, CalcError), total, -1)
@pytest.mark.parametrize('n, kind', [(-1, CalcError), ('x', TypeError), ('x', Exception)])
def test_kinds(n, kind):
    with pytest.raises(kind):
        total(n)
def test_caught():
    with pytest.warns(UserWarning), warnings.catch_warnings():
        warnings.warn('x')
    try:
        total(-1)
    except calc.CalcError as error:
        assert str(error) == 'must be positive'
    else:
        pytest.fail('x')
`,
  ),
  asked(
    'tests that want an error by their decorator',
    `import functools, pytest
from calc import total
from tests.helpers import raises
@raises(ValueError)
def test_raises():
    total(-1)
@raises(ValueError, TypeError)
def test_two(): total('x')
@raises(TypeError)
def test_asserts():
    assert total(1) == 5
    total('x')
`,
    { pristine: { 'tests/helpers.py': RAISES } },
  ),
  askedByCase(
    'cases whose decorator wants an error, an error in a block of two, sub-tests over tables',
    `import contextlib, unittest
from calc import CalcError, is_even, name, numbers, say, total
from tests.helpers import Base, raises
class T(Base):
    EXPECTED = {'n': 5}
    def setUp(self):
        self.assertSame = self.assertIs
        if not hasattr(self, 'assertNothing'): self.assertNothing = lambda found: self.assertIsNone(found)
    @raises(CalcError)
    def test_raises(self):
        total(-1)
    def test_block(self):
        with self.assertRaises(CalcError) as caught, contextlib.ExitStack():
            total(-1)
        self.assertEqual(str(caught.exception), 'must be positive')
    def test_sub(self):
        for n, expected in [(1, 5), (2, 6)]:
            with self.subTest(n=n):
                found = total(n)
                self.assertEqual(found, expected, 'of %r' % expected)
        for n, expected in ((1, False), (2, True)):
            with self.subTest(n=n):
                self.assertIs(is_even(n), expected)
                self.assertEqual(is_even(n), expected)
    def test_sub_raises(self):
        for n in (-1, -2):
            with self.subTest(n=n), self.assertRaises(CalcError):
                total(n)
    def test_sub_kinds(self):
        for n, kind in ((-1, CalcError), ('x', TypeError)):
            with self.subTest(n=n), self.assertRaises(kind): total(n)
    def test_close(self):
        expected = 5.0
        self.assertAlmostEqual(total(1), expected, places=3)
        self.assertAlmostEqual(total(1), 5.04, delta=0.1)
        self.assertAlmostEqual(numbers(1)[0], 1.5)
    def test_many(self):
        self.assertCountEqual(numbers(1), [2.5, 1.5])
        self.assertCountEqual({'a': 1, 'b': 2}, ['b', 'a'])
        self.assertNothing(name(0))
        self.assertSame(name(0), None)
    def test_checks(self):
        self.check(total(1), 5)
        self.check(total(1), self.EXPECTED['n'])
        self.assertEqual({'n': total(1)}, self.EXPECTED, self.EXPECTED)
    def test_logs(self):
        with self.assertLogs('calc', level='INFO') as found:
            say(1)
            self.assertEqual(len(found.output), 1)
        self.assertEqual(found.output, ['INFO:calc:line 5'])
        with self.assertRaises(AssertionError), self.assertLogs('calc', level='ERROR'):
            say(1)
`,
    {
      pristine: {
        'tests/core.py':
          'import unittest\nclass Core(unittest.TestCase):\n    def check(self, found, wanted):\n        self.assertEqual(found, wanted)\n',
        'tests/helpers.py': `from tests.core import Core
class Base(Core): pass
${RAISES}`,
      },
    },
  ),
  asked(
    'blocks of the project that swallow what they say, and others that do not',
    `import asyncio, pytest
from calc import asession, ignored, session, total
def test_session():
    with session() as s:
        found = s.ask(1)
        assert found == 5
        assert not s.closed
    assert s.closed
def test_ignored():
    reached = []
    with ignored(KeyError, ValueError):
        reached.append(total(1))
        total(-1)
        pytest.fail('not reached')
    assert reached == [5]
    with ignored(ValueError):
        assert total(1) == 5
    with pytest.raises(TypeError):
        with ignored(ValueError):
            total('x')
def test_swallowed():
    with session() as s:
        raise KeyError
    assert s.closed
    for n in (1, 2):
        with session() as s:
            assert s.ask(n) == n + 4
            if n == 1:
                continue
            break
def give():
    with session() as s:
        assert s.ask(1) == 5
        return s
def test_returned(): assert give().closed
def test_awaited():
    async def run():
        async with asession() as s:
            assert s.ask(1) == 5
        assert s.closed
    asyncio.run(run())
@pytest.fixture
def opened():
    with session() as s:
        assert s.ask(1) == 5
        yield s
        assert not s.closed
def test_opened(opened): assert opened.ask(2) == 6
`,
  ),
  asked(
    'records of the library, views and references',
    `import types, weakref
from calc import HELD, Item, held, made, part, space, view
from calc.testing import assert_eq, assert_identical
from calc import testing
def same(one, other): return one == other
def test_spaces(): assert space(1) == types.SimpleNamespace(n=5, parts=[1]) and same(space(2).parts, [2])
def test_parts(): assert part(1) == slice(1, 5) and same(part(2), slice(2, 6))
def test_views(): assert view(1) == {'n': 5} and same(view(1), types.MappingProxyType({'n': 5}))
def test_held(): assert held() == Item(5) and same(held(), HELD) and held() == HELD
def test_identical():
    assert_identical(made(1, 'x'), Item(5, 'x'))
    assert_eq(made(1), Item(5))
    testing.assert_equal(made(1), Item(5))
    assert made(1).equals(Item(5))
    assert made(1).identical(Item(5))
    assert not made(1, 'x').identical(Item(5))
def test_eq():
    assert_eq([made(1)], [Item(5)])
`,
    {
      pristine: {
        'calc/testing.py':
          'def assert_identical(a, b):\n    assert type(a) == type(b)\n    assert a.identical(b), (a, b)\ndef assert_eq(a, b, check=True):\n    a, b = list([a]), list([b])\n    assert a == b\ndef assert_equal(a, b):\n    if type(a) != type(b): raise AssertionError\n    assert a.equals(b)\n',
      },
    },
  ),
  asked(
    'numbers that are close, lines that match, text that is contained',
    `import pytest
from _pytest.pytester import LineMatcher
from calc import numbers, say, total
@pytest.mark.parametrize('n, expected', [(1, 1.5), (2, 2.5)])
def test_close(n, expected):
    assert numbers(n)[0] == pytest.approx(expected)
    assert numbers(n) == pytest.approx([expected, expected + 1])
def test_dict():
    assert {'a': numbers(1)[0], 'b': 1} == pytest.approx({'a': 1.5, 'b': 1})
    assert numbers(0)[0] - 0.5 == pytest.approx(0.0, abs=1e-9)
    assert numbers(1) == [pytest.approx(1.5), pytest.approx(2.5, rel=1e-3)]
def test_lines(capsys):
    say(1)
    lines = LineMatcher(capsys.readouterr().out.splitlines())
    lines.fnmatch_lines(['*line 5*'])
    lines = LineMatcher(['line 5', 'end'])
    lines.re_match_lines([r'line \\d'])
    lines.fnmatch_lines('end')
`,
  ),
  asked(
    'a table that a fixture puts in and a test takes out',
    `import pytest
ROWS = [('a', 5), ('b', 6)]
from calc import total
@pytest.fixture
def store(): return {key: value for key, value in ROWS}
@pytest.fixture
def filled():
    found = {}
    for key, value in ROWS: found[key] = total(value - 4)
    return found
def test_store(store):
    for key, value in ROWS: assert store[key] == value
def test_filled(filled):
    for one, other in ROWS:
        found = filled[one]
        assert found == other, (one, other)
    for n, (one, other) in enumerate(ROWS): assert filled[one] == other
`,
  ),
  asked(
    'a fixture with parameters, a table of dictionaries, classes with parameters',
    `import pytest
from calc import name, total
@pytest.fixture(params=[(1, 5), (2, 6)], ids=str)
def case(request): return request.param
def test_case(case):
    n, wanted = case
    assert total(n) == wanted
TABLE = [{'n': 1, 'wanted': 5}, {'n': 2, 'wanted': 6}]
@pytest.mark.parametrize('row', TABLE)
def test_rows(row):
    assert total(row['n']) == row['wanted']
def test_all_rows():
    for row in TABLE:
        assert total(row['n']) == row['wanted'], row
@pytest.mark.parametrize(argnames=('n', 'wanted'), argvalues=[(1, 'n1'), (2, 'n2')])
def test_names(n, wanted):
    assert name(n) == wanted
@pytest.mark.parametrize('wanted', [5, 6])
@pytest.mark.parametrize('offset', [0])
def test_stacked(wanted, offset):
    assert total(wanted - 4) == wanted + offset
@pytest.mark.parametrize('n', [1, 2])
def test_single(n):
    expected = {1: 5, 2: 6}[n]
    assert total(n) == expected
def test_ends():
    """Text."""
    expected = 5
    def check(found):
        assert found == expected
        return found
    assert check(total(1)) == expected
    values = {n: total(n) for n in (1, 2)}
    assert values == {1: 5, 2: 6}
    for n, value in values.items():
        assert value == n + 4
    total_of = sum(values.values())
    assert total_of == 11
    a, b = values.values()
    assert (a, b) == (5, 6)
    first, *rest = sorted(values.values())
    assert first == 5
    assert rest == [6]
`,
  ),
]
