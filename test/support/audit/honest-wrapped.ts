/**
 * Honest tests whose expectations are wrapped in calls and operators, stand in parts of records, fixtures, defaults and words, and are
 * given to the code under test as well; that speak of what is not a number; that compare objects of the project: an audit must agree.
 */
import type { HonestTests } from './honest.ts'

const REPAIR = `import enum, math
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
def total(n): return n + 4
def day(n): return 24 * 60 * 60 * n
def text(n): return 'ab' * n
def words(one): return one.split()
def price(n): return Decimal(n) / 4
def share(n): return Fraction(n, 4)
def place(name): return Path('some') / name
def later(n): return date(2020, 2, 29) + timedelta(days=n)
def span(n): return timedelta(days=n)
def raw(one): return one.encode()
def unique(many): return set(many)
def back(one): return one[::-1]
def same(one): return one
def grown(many):
    many.append(len(many))
    return many
def sort(many):
    many.sort()
    return many
class Item:
    def __init__(self, n, note=''): self.n, self.note = n, note
    def __eq__(self, other): return isinstance(other, Item) and self.n == other.n
    def __hash__(self): return hash(self.n)
class Name:
    """Its case says nothing."""
    def __init__(self, text): self.text = text
    def __eq__(self, other): return isinstance(other, Name) and self.text.lower() == other.text.lower()
class Settings:
    one = None
    def __new__(cls, *a):
        cls.one = cls.one or object.__new__(cls)
        return cls.one
class Grade(int): pass
class Color(enum.Enum):
    RED = 1
    BLUE = 2
    CRIMSON = 1
class Single(enum.Enum):
    ONLY = 1
def item(n): return Item(n + 4, 'made')
def color(n): return Color(n)
def grade(n): return Grade(n)
def only(): return Single.ONLY
def settings(): return Settings()
def mean(many): return sum(many) / len(many) if many else math.nan
def near(n): return n + 0.01
def joined(parts): return ', '.join(parts)
def pairs(many): return [(one, one + 4) for one in many]
def routed(key, routes): return routes[key]
def described(one): return one.__doc__
class Nothing:
    """Is equal to all others of its kind."""
    def __init__(self, name): self.name = name
    def __eq__(self, other): return type(self) is type(other)
class Later:
    def __init__(self, make): self.get = make
class Holder:
    def __init__(self, value): self.value = value
    def again(self): return Holder(self.value)
    @property
    def shown(self): return self.value
`

function asked(title: string, text: string): HonestTests {
  return { title, runner: 'pytest', patch: { 'calc/__init__.py': REPAIR }, hidden: { 'tests/test_calc.py': text } }
}

function askedByCase(title: string, text: string): HonestTests {
  return { ...asked(title, text), runner: 'unittest' }
}

export const HONEST_WRAPPED: HonestTests[] = [
  asked(
    'expectations that calls and operators wrap',
    `import textwrap, collections, datetime
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
import pytest
from calc import *
def test_operators():
    assert day(1) == 60 * 60 * 24
    assert total(1020) == 2 ** 10
    assert total(1020) == 1 << 10
    assert text(3) == 'ab' * 3
    assert text(2) == 'a' + 'bab'
    assert pairs([1] * 2) == [(1, 5)] * 2
    assert total(-9) == -(2 + 3)
    assert text(1) == '%s%s' % ('a', 'b')
def test_calls():
    assert price(10) == Decimal('2.5')
    assert price(10) == Decimal('2.50')
    assert share(10) == Fraction(10, 4)
    assert share(10) == Fraction(5, 2)
    assert place('one') == Path('some/one')
    assert later(0) == date(2020, 2, 29)
    assert later(1) == datetime.date(year=2020, month=3, day=1)
    assert span(2) == timedelta(days=2)
    assert span(2) == timedelta(hours=48)
    assert raw('words') == 'words'.encode()
    assert unique([1, 2, 2]) == set([1, 2])
    assert unique([1, 2]) == set([2, 1, 1])
    assert unique('ab') == frozenset('ab')
    assert words('some words') == 'some words'.split()
    assert same('words') == ' words '.strip()
    assert same({'a': 1}) == dict(a=1)
    assert same('words') == 'WORDS'.lower()
    assert same('a-b') == '-'.join(['a', 'b'])
    assert same([1, 2]) == list((1, 2))
    assert same(3) == int('3')
    assert same('{}') == '{}{}'.format('{', '}')
    assert same(len('abc')) == len('abd')
    assert same(True) == bool('x')
    assert sorted(same([2, 1])) == sorted([1, 2])
    assert same(collections.OrderedDict(a=1)) == collections.OrderedDict([('a', 1)])
    n = 4
    assert same('some 4') == f'some {n}'
def test_locals():
    expected = ['b', 'a']
    assert unique(expected) == set(expected)
    assert sorted(same(['a', 'b'])) == sorted(expected)
    numbers = [1, 2, 2]
    found = same([2, 1])
    assert set(found) == set(numbers)
    wanted = '''
        some
        words
    '''
    found = same('some\\nwords')
    assert found == textwrap.dedent(wanted).strip()
    lines = 'some\\nwords'
    assert same(['some', 'words']) == lines.splitlines()
    assert same('SOME\\nWORDS').lower() == lines.lower()
    assert len(same('some words')) == len(lines)
@pytest.mark.parametrize('n, expected', [(10, '2.5'), (12, '3')])
def test_made(n, expected):
    assert price(n) == Decimal(expected)
    assert float(price(n)) == float(expected)
@pytest.mark.parametrize('n, expected', [(10, Decimal('2.5')), (12, Decimal(3))])
def test_table(n, expected):
    assert price(n) == expected
@pytest.mark.parametrize('n, expected', [(0, date(2020, 2, 29)), (1, date(2020, 3, 1))])
def test_dates(n, expected):
    found = later(n)
    assert found == expected
`,
  ),
  asked(
    'expectations in parts of records, fixtures and defaults',
    `import pytest
from collections import namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from calc import *
Case = namedtuple('Case', 'n want')
@dataclass(frozen=True)
class Row:
    n: int
    want: int
    @property
    def next(self): return self.want + 1
class Slotted:
    __slots__ = ('n', 'want')
    def __init__(self, n, want): self.n, self.want = n, want
CASES = {'one': (1, 5), 'two': (2, 6)}
ROWS = [(1, 5), (2, 6)]
@pytest.fixture(params=[(1, 5), (2, 6)])
def pair(request):
    return request.param
@pytest.fixture(params=[5, 6])
def expected(request):
    return request.param
@pytest.fixture
def five():
    return 5
@pytest.fixture
def made():
    yield 5
@pytest.mark.parametrize('case', [(1, 5), (2, 6)])
def test_entry(case):
    assert total(case[0]) == case[1]
    assert case[-1] - 4 == case[0]
@pytest.mark.parametrize('case', [{'n': 1, 'want': 5}, {'n': 2, 'want': 6}])
def test_named(case):
    found = total(case['n'])
    assert found == case['want']
    assert total(**{'n': case['n']}) == case['want']
@pytest.mark.parametrize('case', [Case(1, 5), Case(2, 6)])
def test_attribute(case):
    assert total(case.n) == case.want
@pytest.mark.parametrize('case', [Case(1, 5), Case(2, 6)])
def test_taken(case):
    n, want = case
    found = total(n)
    assert found == want
@pytest.mark.parametrize('row', [Row(1, 5), SimpleNamespace(n=1, want=5, next=6), Slotted(2, 6)])
def test_record(row):
    found = total(row.n)
    assert found == row.want
@pytest.mark.parametrize('row', [Row(1, 5)])
def test_property(row):
    found = total(row.n + 1)
    assert found == row.next
def test_loop():
    for row in ROWS:
        assert total(row[0]) == row[1]
    for row in [Row(1, 5), Row(2, 6)]:
        assert total(row.n) == row.want
def test_table():
    n, want = CASES['one']
    found = total(n)
    assert found == want
    assert total(CASES['two'][0]) == CASES['two'][1]
def test_fixture(pair):
    n, want = pair
    found = total(n)
    assert found == want
def test_fixture_entry(pair):
    assert total(pair[0]) == pair[1]
def test_param(expected):
    assert total(expected - 4) == expected
def test_given(five, made):
    found = total(1)
    assert found == five
    assert found == made
    assert total(five) == 9
def test_default(n=1, want=5):
    assert total(n) == want
class TestIn:
    ROW = (1, 5)
    def test_row(self):
        assert total(self.ROW[0]) == self.ROW[1]
`,
  ),
  asked(
    'expectations that are given to the code too',
    `import logging, sys
import pytest
from calc import *
WANTED = 5
NAME = 'abc'
FLAG = True
MANY = [1, 2]
def test_local():
    expected = 'words'
    print(expected, file=sys.stderr)
    logging.getLogger('calc').info('%s', expected)
    found = back('sdrow')
    assert found == expected
    assert back(back(expected)) == expected
    assert same(expected) == expected
    assert same(one=expected) == expected, expected
    assert [same(expected)] == [expected]
def test_list():
    expected = [1]
    found = grown(expected)
    assert found == [1, 1]
    assert found == expected
    assert expected == [1, 1]
def test_sorted():
    expected = [2, 1]
    sort(expected)
    assert expected == [1, 2]
    found = same([1, 2])
    assert found == expected
def test_counted():
    expected = 0
    for n in range(3):
        assert same(n) == expected
        expected += 1
    expected = total(expected)
    assert same(7) == expected
@pytest.mark.parametrize('n, expected', [(1, 5), (2, 6)])
def test_parameter(n, expected):
    found = total(n)
    assert found == expected
    assert same(expected) == expected
    assert total(expected) == expected + 4
def test_constant():
    found = total(1)
    assert found == WANTED
    assert same(WANTED) == WANTED
    assert total(WANTED) == 9
@pytest.mark.parametrize('name', [NAME, 'd'])
def test_name(name):
    assert same(name) == name
    assert same('abc') == NAME
    assert same(True) == FLAG
    assert same(FLAG) is True
def test_many():
    assert same([1, 2]) == MANY
    assert same(MANY) == [1, 2]
    assert pairs(MANY)[0] == (1, 5)
def test_round():
    expected = '5'
    assert same(expected) == expected
    found = int(same(expected))
    assert found == 5
    assert str(found) == expected
class TestIn:
    def setup_method(self):
        self.wanted = 5
    def test_in(self):
        found = total(1)
        assert found == self.wanted
        assert same(self.wanted) == self.wanted
`,
  ),
  asked(
    'expectations that stand in words too',
    `"""Says 57 and 5371."""
import pytest
from calc import total
# Wants 5371, not 5372.
def test_total():
    """Is it 5371?"""
    # 5371 it is
    assert total(5367) == 5371, 'should be 5371'  # 5371
    assert total(5367) == 5371, 'it was 5371 and "5371"'
@pytest.mark.parametrize('n', [5367])
def test_again(n):
    """5371 again."""
    assert total(n) == 5371
`,
  ),
  asked(
    'numbers that are none, and orders that are denied',
    `import math
from calc import mean, near
def test_mean():
    assert not mean([]) > 0
    assert not mean([]) < 0
    assert math.isnan(mean([]))
    assert mean([1, 2]) == 1.5
`,
  ),
  asked(
    'one expectation that is compared in several ways',
    `import operator, pytest
from calc import *
@pytest.mark.parametrize('n, expected', [(1, 5), (2, 6)])
def test_ways(n, expected):
    assert (total(n) == expected) is True
    assert operator.eq(total(n), expected)
    assert expected in [total(n)]
    assert abs(total(n) - expected) < 0.1
    assert total(n) == pytest.approx(expected)
    assert same(expected) == expected
    assert bool(same(expected) == expected)
@pytest.mark.parametrize('n, expected', [(3, True), (0, False)])
def test_truth(n, expected):
    assert bool(same(n)) == expected
    assert bool(same(n)) is expected
    assert expected in [bool(same(n))]
    assert same(expected) is expected
@pytest.mark.parametrize('parts, expected', [(['a', 'b'], 'a, b'), ([], '')])
def test_text(parts, expected):
    found = joined(parts)
    assert found == expected
    assert expected in found
    assert found.startswith(expected)
    assert joined([expected]) == expected
    if found != expected:
        pytest.fail(expected)
@pytest.mark.parametrize('kind, text', [(TypeError, 'NoneType'), (TypeError, 'None|str')])
def test_errors(kind, text):
    with pytest.raises(kind, match=text):
        total(None)
    with pytest.raises(kind) as info:
        total(None)
    assert isinstance(info.value, kind)
def test_bounds():
    expected = 5
    assert expected - 1 < total(1) < expected + 1
    assert 4.5 < total(1) < 5.5
    assert 4 <= total(1) <= 100000000
    assert 10 > total(1) > 1
    limit = 0.5
    assert abs(near(1) - 1) < limit
    assert abs(near(1) - 1) < 10 ** 9
    assert abs(near(1) - near(1)) <= 0
    n = 1
    assert total(n) == n + 4
    assert total(n) - n == 4
    assert joined(['a', 'b']) == 'a' + ', b'
    expected = []
    for one in [1, 2]:
        expected.append(one + 4)
    found = [total(1), total(2)]
    assert found == expected
    assert same(expected) == expected
    assert sort(expected) == expected
    expected = 'some'
    expected += ' words'
    found = same('some words')
    assert found == expected
    wanted = [5, 6]
    for at in range(len(wanted)):
        assert total(at + 1) == wanted[at]
@pytest.mark.parametrize('case', [{'n': 1, 'want': {'value': 5}}])
def test_deep(case):
    found = total(case['n'])
    assert found == case['want']['value']
    assert same(case['want']) == {'value': 5}
class TestTable:
    CASES = [(1, 5), (2, 6)]
    @classmethod
    def setup_class(cls):
        cls.wanted = 5
    def test_table(self):
        for n, expected in self.CASES:
            assert total(n) == expected
    def test_wanted(self):
        found = total(1)
        assert found == self.wanted
        assert same(self.wanted) == self.wanted
def test_objects():
    expected = Item(n=5)
    found = item(1)
    assert found == expected
    assert [item(1), item(2)] == [Item(5, 'a'), Item(6)]
    assert same(Name('one')) == Name('ONE')
    assert same(expected) == expected
    other = Item(5)
    assert expected == other
`,
  ),
  asked(
    'tests beside one another that alter the same names',
    `import re, pytest
from calc import *
MESSAGE = 'NoneType'
ROWS = [(1, 5), (2, 6)]
@pytest.fixture
def filled():
    found = {}
    for key, value in ROWS: found[key] = total(value - 4)
    return found
def test_looked():
    assert re.search(MESSAGE, 'a NoneType') and not re.search('x', text(3))
    assert not re.search(MESSAGE, text(3))
def test_message():
    with pytest.raises(TypeError, match=MESSAGE):
        total(None)
def test_filled(filled):
    for one, other in ROWS:
        found = filled[one]
        assert found == other, (one, other)
    for n, (one, other) in enumerate(ROWS):
        assert filled[one] == other
def test_sorted():
    data = [3, 1, 2]
    assert sort(data) == sorted(data)
WANTED = [5, 6]
def test_on_both_sides():
    found = [total(1), total(2)]
    assert sorted(found) == found
    assert sorted(WANTED) == WANTED
    expected = same([1, 2])
    assert sorted(expected) == expected
    row = {'a': [1, 2]}
    assert sorted(row['a']) == row['a']
def test_looked_in():
    assert 5 in range(total(1), 10 ** 9)
`,
  ),
  asked(
    'distances that are not large',
    `import pytest
from calc import near
def test_near():
    assert not abs(near(1) - 1) > 0.1
    assert not (near(1) < 1 or near(1) > 2)
    if abs(near(1) - 1) > 0.1:
        raise AssertionError
    if near(1) > float('inf'):
        pytest.fail()
`,
  ),
  asked(
    'objects of the project on both sides',
    `from calc import *
import calc
def test_items():
    assert item(1) == Item(5)
    assert item(1) == Item(5, 'other')
    assert item(1) == Item(n=5, note='made')
    assert [item(1), item(2)] == [Item(5), Item(6)]
    assert {'a': item(1)} == {'a': calc.Item(5)}
    assert not Item(5) == Item(6)
    assert Item(5, 'a') == Item(5, 'b')
    assert same(Name('one')) == Name('ONE')
    assert Name('x') == Name('X')
    assert grade(5) == Grade(5)
    assert Settings('a') is Settings('b')
    assert Settings('a') == Settings('b')
    assert settings() is Settings()
def test_colors():
    assert color(1) is Color.RED
    assert color(1) == Color.RED
    assert color(2) == calc.Color.BLUE
    assert color(1) is Color.CRIMSON
    assert Color.CRIMSON is Color.RED
    assert only() is Single.ONLY
    assert color(2).value == 2
    assert [color(1)] == [Color.RED]
`,
  ),
  askedByCase(
    'all of that in a case',
    `import unittest
from datetime import date
from decimal import Decimal
from calc import *
import calc
ROWS = [(1, 5), (2, 6)]
class T(unittest.TestCase):
    WANTED = 5
    def setUp(self):
        self.wanted = 5
        self.row = {'n': 1, 'want': 5}
    def test_made(self):
        """Is it 86400?"""
        self.assertEqual(day(1), 60 * 60 * 24, 'should be 86400')
        self.assertEqual(price(10), Decimal('2.5'))
        self.assertEqual(later(0), date(2020, 2, 29))
        self.assertEqual(same('words'), ' words '.strip())
        self.assertCountEqual(unique([1, 2]), set([2, 1]))
        self.assertListEqual(words('a b'), 'a b'.split())
        expected = ' words '
        self.assertEqual(same('words'), expected.strip())
    def test_rows(self):
        for row in ROWS:
            with self.subTest(row=row):
                found = total(row[0])
                self.assertEqual(found, row[1])
    def test_given(self):
        found = total(1)
        self.assertEqual(found, self.wanted)
        self.assertEqual(same(self.wanted), self.wanted)
        self.assertEqual(found, self.WANTED)
        self.assertEqual(total(self.row['n']), self.row['want'])
        expected = 'abc'
        self.assertEqual(same('abc'), expected)
        self.assertEqual(back(back(expected)), expected, expected)
    def test_objects(self):
        self.assertEqual(item(1), Item(5))
        self.assertIs(color(2), Color.BLUE)
        self.assertEqual(color(1), Color.CRIMSON)
        self.assertFalse(abs(near(1) - 1) > 0.1)
        self.assertEqual(Item(5, 'a'), Item(5))
`,
  ),
  asked(
    'expectations that the code computes from as well: in tables, fixtures, closures, objects and words',
    `import pytest
from calc import *
ROUTES = {'first': 'one.place', 'second': 'two.place'}
@pytest.mark.parametrize('key, expected, routes', [('first', 'one.place', ROUTES), ('second', 'two.place', ROUTES)])
def test_table(key, expected, routes):
    assert routed(key, routes) == expected
@pytest.mark.parametrize('options, is_on', [({'flag': True}, True), ({'flag': False}, False)])
def test_truth(options, is_on):
    assert routed('flag', options) is is_on
@pytest.mark.parametrize('override', [None, 5])
@pytest.mark.parametrize('n, expected', [(1, 5), (2, 6)])
def test_bound_again(n, expected, override):
    if override is not None:
        n, expected = 1, override
    assert total(n) == expected
@pytest.fixture
def secret():
    return 'word57'
@pytest.fixture
def holder(secret):
    return Holder(secret)
def test_fixture(holder, secret):
    assert holder.value == secret
@pytest.fixture
def place(kind):
    return Holder(kind)
@pytest.mark.parametrize('kind', ['round', 'flat'])
def test_requested(place, kind):
    assert place.value == kind
@pytest.mark.parametrize('place', ['round'], indirect=True)
@pytest.mark.parametrize('kind', ['flat'])
def test_indirect(place, kind):
    assert place.value == kind
@pytest.fixture
def token():
    return 'abc57'
def test_token(token):
    assert same('abc57') == token
def test_token_that_is_given(token):
    assert same(token) == 'abc57'
def test_closure():
    held = 42
    later = Later(lambda: held)
    assert later.get() == 42
    held = [23]
    held.append(42)
    assert later.get() == [23, 42]
    assert held == [23, 42]
    assert later.get() is held
def test_object():
    one = Holder('value57')
    other = one.again()
    assert one.value == other.value
    assert one.shown == one.value
def test_entry():
    one = {'name': 'value57'}
    assert routed('name', one) == one['name']
    assert same(one.get('name')) == one['name']
def test_description():
    def inner():
        """described57"""
        return 1
    class Inner:
        """classified57"""
    assert described(inner) == 'described57'
    assert described(Inner) == 'classified57'
def test_equal_by_design():
    one = Nothing(name='x57')
    other = Nothing(name='y57')
    first = Nothing(name='z57')
    assert other == first
    assert one != 42
    assert total(1) == 5
    assert total(2) == 6
def test_shown():
    """Shown57"""
    assert same('Shown57') == 'Shown57'
`,
  ),
]
