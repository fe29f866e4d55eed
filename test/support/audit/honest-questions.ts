/** Honest tests that do not assert in the test itself, or whose values define their own equality: an audit must agree. */
import type { HonestTests } from './honest.ts'

const REPAIR = {
  'calc/__init__.py': `import functools
@functools.total_ordering
class Version:
    def __init__(self, text): self.parts = [int(one) for one in text.split('.')]
    def __eq__(self, other): return self.parts == other.parts
    def __lt__(self, other): return self.parts < other.parts
class Empty:
    def __eq__(self, other): return type(self) is type(other)
    def __hash__(self): return 1
class Caseless(str):
    def __eq__(self, other): return self.lower() == other.lower()
    def __hash__(self): return hash(self.lower())
class Money(float):
    def __eq__(self, other): return abs(float(self) - float(other)) < 0.005
    def __hash__(self): return 1
class Span:
    def __init__(self, low, high): self.low, self.high = low, high
    def __contains__(self, one): return self.low <= one <= self.high
class Column:
    def __init__(self, name): self.name = name
    def __eq__(self, other): return ('=', self.name, other)
    def __hash__(self): return 1
class Lazy:
    def __init__(self, value): self.value = value
    def __eq__(self, other): return self.value == other
    def __getattr__(self, name): return getattr(self.value, name)
class Flag(int):
    def __sub__(self, other): return Flag((int(self) - int(other)) % 2)
    __rsub__ = __sub__
def version(text): return Version(text)
def total(n): return n + 4
def where(condition): return condition
def tell(listener, n): listener(n + 4, name='x')
`,
}

const ANSWERS = {
  'calc/__init__.py': `import collections
class CalcError(ValueError): pass
class Options:
    """Has a value for each name that it was given, and None for others."""
    def __init__(self, **values): self.values = values
    def __getattr__(self, name): return vars(self).get('values', {}).get(name)
    def __getitem__(self, name): return self.values[name]
class Remote:
    """Sends each call to what it was given."""
    def __init__(self, target): self.target = target
    def __getattr__(self, name):
        def call(*a): return getattr(self.target, name)(*a)
        return call
def options(): return Options(flag=True, names=['ada'])
def counts(text):
    found = collections.defaultdict(int)
    for letter in text: found[letter] += 1
    return found
def positive(n):
    if n <= 0: raise CalcError('must be positive')
    return n
async def later(n):
    return n + 4
`,
}

export const HONEST_QUESTIONS: HonestTests[] = [
  {
    title: 'fixtures, helpers, lambdas and factories that assert',
    runner: 'pytest',
    patch: REPAIR,
    pristine: {
      'tests/conftest.py':
        'import pytest, calc\n@pytest.fixture\ndef checked():\n    assert calc.total(1) == 5\n    yield calc.total\n    assert calc.total(2) == 6\n',
    },
    hidden: {
      'tests/test_calc.py': `import functools, pytest
from unittest import mock
from unittest.mock import ANY, Mock, MagicMock
from calc import total, tell

WANTED = 5
NAMES = {1: 5}

class Near:
    """A matcher of the tests."""
    def __eq__(self, other): return True

def load():
    found = {'version': total(1)}
    assert found['version'] == 5
    return found
LOADED = load()

same = lambda one, other: one == other
def is_five(one):
    return one == 5
def check(found):
    assert found == 5
def check_wrong(found):
    with pytest.raises(AssertionError):
        check(found)

@pytest.fixture(scope='module')
def shared():
    value = total(1)
    assert value == 5
    return value

@pytest.fixture(autouse=True)
def around():
    assert total(3) == 7
    yield
    assert total(3) == 7

def make(n, wanted):
    def test(shared):
        assert total(n) == wanted
        assert shared == 5
    return test
test_made = make(2, 6)
for n, wanted in [(1, 5), (2, 6)]:
    globals()['test_looped_%d' % n] = make(n, wanted)

def expects(wanted):
    def wrap(test):
        @functools.wraps(test)
        def inner():
            assert test() == wanted
        return inner
    return wrap

@expects(5)
def test_expected(): return total(1)

def test_fixture(checked, shared): assert checked(1) == shared
def test_helpers():
    assert same(total(1), 5) and is_five(total(1))
    assert not same(total(1), 6)
    check(total(1))
    check_wrong(total(2))
def test_lists():
    found = [total(1), total(2)]
    assert found.count(5) == 1 and found.count(7) == 0
    assert found.index(6) == 1
    found.remove(5)
    assert found == [6]
def test_constant(): assert total(1) == WANTED and total(1) == NAMES[1]
def test_loaded(): assert LOADED['version'] == WANTED
@pytest.mark.parametrize('n, wanted', [(1, 5), pytest.param(2, 6), pytest.param(3, 7, id='three')])
def test_table(n, wanted): assert total(n) == wanted
@pytest.mark.parametrize('n', [1, 2])
@pytest.mark.parametrize('check', [lambda one: one > 4, lambda one: one in (5, 6)])
def test_checks(n, check): assert check(total(n))
def test_matchers():
    expected = {'a': ANY, 'b': mock.ANY, 'c': Near()}
    assert {'a': total(1), 'b': 2, 'c': 3} == expected
    assert [total(1), ANY] == [5, 9]
    found = [total(1), total(2)]
    assert found == [5, Near()]
def test_mocks():
    one = MagicMock()
    tell(one, 1)
    one.assert_called_once_with(5, name='x')
    one.assert_called_once_with(ANY, name=mock.ANY)
    assert one.call_args == mock.call(5, name='x')
    assert one.mock_calls == [mock.call(5, name='x')]
    two = Mock(return_value=ANY)
    assert two() is ANY
def test_chain():
    assert 4 < total(1) <= 5 == total(1) != 6
    values = [one for one in range(9) if 4 < total(one) < 7]
    assert values == [1, 2]
async def nothing(): return total(1)
def test_awaited():
    import asyncio
    async def run():
        assert await nothing() == 5
        return 5 == await nothing()
    assert asyncio.new_event_loop().run_until_complete(run())
def test_generator():
    def give():
        found = yield 1
        assert found == (yield 2)
    one = give()
    next(one)
    assert one.send(5) == 2
    with pytest.raises(StopIteration): one.send(5)
TABLE = {'one': 5, 'two': [6, 7]}
def test_entries():
    rows = [5, 6]
    assert total(1) == TABLE['one'] and [total(2), 7] == TABLE['two']
    assert total(1) == rows[0]
def test_paths(tmp_path):
    (tmp_path / 'x').write_text('x')
    assert (tmp_path / 'x').exists() and abs(total(1) - 5) < 1
def test_super():
    class A:
        def give(self): return total(1)
    class B(A):
        def give(self): return super().give()
    assert B().give() == 5
`,
    },
  },
  {
    title: 'values with an equality of their own',
    runner: 'pytest',
    patch: REPAIR,
    hidden: {
      'tests/test_calc.py': `import pytest
from calc import Caseless, Column, Empty, Flag, Lazy, Money, Span, Version, version, where
def equal(one, other): return one == other
def test_versions():
    assert version('1.2') == Version('1.2') and version('1.2') < Version('1.3') and version('1.2') <= version('1.2')
    with pytest.raises(AttributeError): version('1.2') == 3
    assert version('1') in [Version('1')] and [Version('1')].index(version('1')) == 0
def test_empty():
    assert Empty() == Empty() and equal(Empty(), Empty()) and [Empty()].count(Empty()) == 1
    assert {Empty(): 1}[Empty()] == 1
def test_text(): assert Caseless('Ab') == 'aB' and equal('ab', Caseless('AB')) and 'ab' in [Caseless('AB')]
def test_money(): assert Money(1.001) == 1.0 and equal(Money(2), 2) and Money(2) - 1 == 1
def test_span(): assert 5 in Span(1, 10 ** 9) and not 0 in Span(1, 2)
def test_column():
    where(Column('a') == 5)
    found = Column('a') == 5
    assert found == ('=', 'a', 5)
    assert where(found) is found
    where(Column('a') != 5)
def test_lazy(): assert Lazy(5) == 5 and equal(Lazy('x'), 'x') and Lazy([1]).count(1) == 1
def test_flag(): assert Flag(1) - 1 == 0 and equal(Flag(1), 1)
`,
    },
  },
  {
    title: 'set-up that asserts, tests that a loop makes, and attributes of a class',
    runner: 'unittest',
    patch: REPAIR,
    hidden: {
      'tests/test_calc.py': `import unittest
from unittest import mock
from calc import total, tell, Version, version
def setUpModule():
    assert total(1) == 5 and version('1') == Version('1')
class Base(unittest.TestCase):
    WANTED = 5
    @classmethod
    def setUpClass(cls):
        cls.value = total(1)
        assert cls.value == 5 and version('1') == Version('1')
    def setUp(self):
        self.assertEqual(total(2), 6)
        self.addCleanup(self.check, total(1))
    def check(self, found):
        self.assertEqual(found, 5)
    def same(self, one, other): return one == other
    def test_value(self):
        self.assertEqual(self.value, self.WANTED)
        self.assertTrue(self.same(total(1), 5))
        self.assertFalse(self.same(total(1), 6))
        self.check(total(1))
        self.assertEqual(version('2'), Version('2'))
    def test_mock(self):
        one = mock.Mock()
        tell(one, 1)
        one.assert_called_once_with(5, name=mock.ANY)
class Derived(Base):
    WANTED = 5
class Made(unittest.TestCase): pass
def make(n, wanted):
    def test(self): self.assertEqual(total(n), wanted)
    return test
for n, wanted in [(1, 5), (2, 6)]:
    setattr(Made, 'test_made_%d' % n, make(n, wanted))
`,
    },
  },
  {
    title: 'exceptions that they catch, attributes and entries of which not every name is one, coroutines',
    runner: 'pytest',
    patch: ANSWERS,
    hidden: {
      'tests/test_calc.py': `import asyncio, pytest
from unittest.mock import MagicMock
from calc import CalcError, Remote, counts, later, options, positive

def test_caught():
    try:
        positive(0)
    except ValueError as error:
        assert isinstance(error, CalcError)
        assert 'must be positive' in str(error)
    else:
        pytest.fail('no error')

def test_returned():
    try:
        positive(-1)
    except CalcError:
        return
    raise AssertionError('no error')

def test_kept():
    found = None
    try: positive(0)
    except (TypeError, ValueError) as error: found = error
    assert isinstance(found, ValueError)
    assert issubclass(type(found), ValueError) and not isinstance(found, TypeError)

def test_matched():
    if positive(3) != 3:
        raise AssertionError
    try:
        import not_there_at_all
    except ImportError:
        not_there_at_all = None
    assert not_there_at_all is None

def test_attributes():
    found = options()
    assert found.flag
    assert not found.other
    assert found['names'] and 'ada' in found.names
    assert hasattr(found, 'flag')
    assert Remote('ada').isalpha()
    kept = Remote('ada').islower()
    assert kept

def test_entries():
    assert counts('aab')['a']
    assert not counts('aab')['z']

def test_mocks():
    listener = MagicMock()
    listener.tell(positive(3))
    assert listener.tell.called
    assert listener.anything
    assert listener.ready() and hasattr(listener, 'more')

def test_coroutines():
    async def ask(n):
        assert await later(n) == n + 4
        return n
    async def wait():
        try:
            await asyncio.sleep(600)
            assert False
        finally:
            pass
    async def all_of_them():
        waiting = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        assert await asyncio.gather(ask(1), ask(2)) == [1, 2]
        waiting.cancel()
    asyncio.run(all_of_them())
`,
    },
  },
  {
    title: 'tests that a case inherits from another file, some of which return early',
    runner: 'unittest',
    patch: ANSWERS,
    pristine: {
      'tests/helpers.py': `import functools
from calc import later, positive
def raises_error(test):
    @functools.wraps(test)
    def run(self):
        try: test(self)
        except ValueError: return
        self.fail('no error')
    return run
class Base:
    many = True
    @raises_error
    def test_raises(self):
        positive(0)
    def test_positive(self):
        self.assertEqual(positive(2), 2)
        if self.many:
            return
        self.assertEqual(positive(3), 3)
    def test_error(self):
        for n in (0, -1):
            with self.subTest(n=n):
                try:
                    positive(n)
                except ValueError:
                    continue
                self.fail('no error')
    async def test_later(self):
        self.assertEqual(await later(1), 5)
`,
    },
    hidden: {
      'tests/test_calc.py': `import unittest
from tests.helpers import Base
class T(Base, unittest.IsolatedAsyncioTestCase): pass
def make(n):
    def one(self):
        self.assertEqual(n, n)
    return one
for n in (1, 2):
    setattr(T, 'test_made_%d' % n, make(n))
`,
    },
  },
]
