/** Hidden tests in the styles of honest projects: an audit must agree with the solution in each of them. */

export interface HonestTests {
  title: string
  runner: 'pytest' | 'unittest'
  pristine?: Record<string, string>
  /** The repair, if it is not `add`. */
  patch?: Record<string, string>
  hidden: Record<string, string>
}

const REPAIR = {
  'calc/__init__.py': `class Sum:
    def __init__(self, n): self.n = n
    def __eq__(self, o): return isinstance(o, Sum) and o.n == self.n
    def equals(self, o): return self == o
def total(n):
    if n < 0: raise ValueError('must be positive (got %d)' % n)
    return n + 4
def made(n): return Sum(n + 4)
def text(n): return 'line %d' % n
`,
}

const MAKING = `import os, pathlib, shutil
from calc import total
HERE = pathlib.Path(__file__).parent
def make_beside():
    (HERE / 'made').mkdir(exist_ok=True)
    (HERE / 'made' / 'text').write_text(str(total(1)))
    return (HERE / 'made' / 'text').read_text()
def make_here():
    os.makedirs('output/inner')
    with open('output/inner/text', 'w') as file: file.write(str(total(1)))
    with open('output/inner/text') as file: found = file.read()
    shutil.rmtree('output')
    return found
`

const STOPPING = `def total(n): return n + 4
def stop(kind=KeyboardInterrupt): raise kind('stopped')
def kind_of(system): return 'drive' if system == 'nt' else 'root'
def place():
    import os
    return kind_of(os.name)
`

const REGISTRY = `NAMES = []
def total(n): return n + 4
def size(): return len(NAMES)
def register(name):
    if name in NAMES: raise ValueError('%s is registered' % name)
    NAMES.append(name)
def unregister(name): NAMES.remove(name)
`

const KINDS = `KINDS = []
def total(n): return n + 4
def declare(name):
    if name in KINDS: raise RuntimeError('conflicting kinds %s' % name)
    KINDS.append(name)
    return '%s:%d' % (name, len(name))
`

const PARTS = `import collections
class Part:
    def __init__(self, key): self.key, self.name = key, 'x'
    def __eq__(self, other): return isinstance(other, Part) and other.key == self.key
class Slotted:
    __slots__ = ('__key', 'name', '__weakref__')
    def __init__(self, key): self.__key, self.name = key, 'x'
    def __eq__(self, other): return isinstance(other, Slotted) and other.__key == self.__key
class Shared:
    limit = 3
    def __init__(self): self.args = ()
    def __eq__(self, other): return isinstance(other, Shared) and other.limit == self.limit
class Lazy:
    def __init__(self, make): self.make, self.made = make, make()
    def __eq__(self, other): return isinstance(other, Lazy) and other.made.key == self.made.key
class Errors(collections.UserList, list):
    def __eq__(self, other): return list(self.data) == other
class Ring(dict):
    def __init__(self, *keys):
        dict.__init__(self)
        self.root = [None, None, None]
        self.root[:2] = self.root, self.root
        for key in keys: self[key] = key
    def __setitem__(self, key, value):
        last, root = self.root[0], self.root
        node = [last, root, key]
        last[1] = root[0] = node
        dict.__setitem__(self, key, value)
    def __copy__(self): return Ring(*self)
    def __iter__(self):
        node = self.root[1]
        while node is not self.root:
            yield node[2]
            node = node[1]
    def __eq__(self, other): return isinstance(other, Ring) and list(self) == list(other)
class Node:
    def __init__(self, key): self.key, self.next = key, self
class Linked:
    def __init__(self, *keys):
        self.size, self.root = len(keys), Node(None)
        last = self.root
        for key in keys:
            last.next = Node(key)
            last = last.next
            last.next = self.root
    def keys(self):
        node = self.root.next
        while node is not self.root:
            yield node.key
            node = node.next
    def __eq__(self, other): return isinstance(other, Linked) and self.size == other.size and list(self.keys()) == list(other.keys())
class Named(str):
    def __new__(cls, text, name):
        self = str.__new__(cls, text)
        self.name = name
        return self
    def __eq__(self, other): return self.name == other.name
def same(value): return value
`

const SETTLED =
  'STATE = []\ndef is_ready():\n    return True\ndef settle():\n    STATE.append(1)\ndef value():\n    return 5002 if STATE else 5001\n'

export const HONEST: HonestTests[] = [
  // Its neighbour ends early in the rehearsals, where it is altered too.
  {
    title: 'a test that needs what one of the named tests before it has left',
    runner: 'pytest',
    patch: { 'calc/__init__.py': SETTLED },
    hidden: {
      'tests/test_calc.py':
        'from calc import is_ready, settle, value\ndef test_first():\n    assert is_ready()\n    settle()\ndef test_second():\n    assert value() == 5002\n',
    },
  },
  {
    title: 'a case that needs what one of the named tests before it has left',
    runner: 'unittest',
    patch: { 'calc/__init__.py': SETTLED },
    hidden: {
      'tests/test_calc.py':
        'import unittest\nfrom calc import is_ready, settle, value\nclass T(unittest.TestCase):\n    def test_first(self):\n        self.assertTrue(is_ready())\n        settle()\n    def test_second(self):\n        self.assertEqual(value(), 5002)\n',
    },
  },
  {
    title: 'an object that counts how often it is asked for its text',
    runner: 'pytest',
    patch: {
      'calc/__init__.py':
        'class Text:\n    def __init__(self):\n        self.asked = 5370\n    def __repr__(self):\n        self.asked += 1\n        return "some text"\n',
    },
    hidden: {
      'tests/test_calc.py':
        "from calc import Text\ndef test_text():\n    text = Text()\n    assert str(text) == 'some text'\n    assert text.asked == 5371\n    assert str(text) == 'some text'\n    assert text.asked == 5372\n",
    },
  },
  {
    title: 'a list that links its parts to each other',
    runner: 'pytest',
    patch: {
      'calc/__init__.py': `class Ring(dict):
    def __init__(self, *names):
        self.root = root = []
        root[:] = [root, root, None]
        for name in names:
            last = root[0]
            last[1] = root[0] = [last, root, name]
            self[name] = 5
    def __iter__(self):
        part = self.root[1]
        while part is not self.root:
            yield part[2]
            part = part[1]
    keys = __iter__
    def __eq__(self, other):
        return list(self) == list(other)
    def __ne__(self, other):
        return not self == other
`,
    },
    hidden: {
      'tests/test_calc.py':
        "from calc import Ring\ndef test_ring():\n    ring, same = Ring('a', 'b'), Ring('a', 'b')\n    assert ring == same\n    assert ring != Ring('a', 'c')\n    assert list(ring) == ['a', 'b']\n",
    },
  },
  {
    title: 'a list that code under test puts in order',
    runner: 'pytest',
    patch: { 'calc/__init__.py': 'def order(parts):\n    parts.sort()\n    return parts\n' },
    hidden: {
      'tests/test_calc.py':
        'from calc import order\ndef test_order():\n    expected = [5372, 5371]\n    found = order(expected)\n    assert found == expected\n    assert order([5, 5371]) == [5, 5371]\n',
    },
  },
  {
    title: 'files and folders that tests make beside themselves and where they were started',
    runner: 'pytest',
    patch: REPAIR,
    hidden: {
      'tests/test_calc.py': `${MAKING}
def test_beside(): assert make_beside() == '5'
def test_here(): assert make_here() == '5'
`,
    },
  },
  {
    title: 'files and folders that tests make, under unittest',
    runner: 'unittest',
    patch: REPAIR,
    hidden: {
      'tests/test_calc.py': `import unittest
${MAKING}
class Test(unittest.TestCase):
    def test_beside(self): self.assertEqual(make_beside(), '5')
    def test_here(self): self.assertEqual(make_here(), '5')
`,
    },
  },
  {
    // pytest rewrites the module's functions, but only nested functions contain an assertion.
    title: 'another module of tests whose assertions stand in functions inside of functions',
    runner: 'pytest',
    pristine: {
      'tests/test_shared.py': `def check_all(add):
    def check(one, other, total):
        assert add(one, other) == total
    check(1, 2, 3)

def test_checked():
    def check(numbers):
        assert sum(numbers) == 3
    check([1, 2])
`,
    },
    hidden: {
      'tests/test_calc.py': `from calc import add
from test_shared import check_all

def test_add():
    assert add(2, 3) == 5

def test_all():
    check_all(add)
`,
    },
  },
  {
    title: 'fixtures, monkeypatch and assertions in blocks that swallow',
    runner: 'pytest',
    hidden: {
      'tests/test_calc.py': `import contextlib, unittest, pytest
import calc
from unittest import mock
from calc import add

@pytest.fixture
def five():
    value = add(2, 3)
    assert value == 5
    yield value
    assert value == 5

def test_five(five, tmp_path, capsys):
    assert five == 5
    (tmp_path / 'x').write_text('x')
    print(five)
    assert capsys.readouterr().out == '5\\n'

def test_patched(monkeypatch):
    monkeypatch.setattr(calc, 'add', lambda a, b: 7)
    monkeypatch.setattr(unittest.TestCase, 'fail', None)
    monkeypatch.setattr('builtins.open', None)
    assert calc.add(1, 1) == 7

@mock.patch('calc.add', return_value=mock.ANY)
def test_mocked(add):
    assert calc.add(1, 2) == mock.ANY
    add.assert_called_with(1, mock.ANY)

def test_swallowed():
    with pytest.raises(AssertionError):
        assert add(1, 1) == 3
    with contextlib.suppress(AssertionError):
        assert add(1, 1) == 3
    try:
        assert add(1, 1) == 3
    except AssertionError:
        pass
    for value in []:
        assert add(value, 1) == 3
    if add(1, 1) == 3:
        assert add(1, 1) == 4

def test_early_end():
    if add(1, 1) == 2:
        return
    assert add(1, 1) == 2

def test_approximate():
    assert add(0.1, 0.2) == pytest.approx(0.3)
    assert add(float('nan'), 1) != 1

def test_long(
):
    assert (add(1, 1)
            == 2), 'a message; with "signs"'  # and a comment
    assert add('a',
               'b') == '''ab'''; assert add([1], [2]) == [1, 2]
    assert [add(n, n) for n in range(3)] == [
        0, 2,
        4,
    ]

@pytest.mark.parametrize('a, b, expected', [(1, 2, 3), ('x', 'y', 'xy'), pytest.param(1, 1, 2, id='an id [with] ::signs')])
def test_parameters(a, b, expected):
    assert add(a, b) == expected

class TestClass:
    seen = []

    @pytest.fixture(autouse=True)
    def prepare(self):
        assert add(1, 1) == 2
        self.value = 2

    def test_value(self):
        self.seen.append(add(self.value, 1))
        assert self.seen[-1] == 3
`,
    },
  },
  {
    title: 'sub-tests, coroutines, set-up that asserts and docstrings',
    runner: 'unittest',
    hidden: {
      'tests/test_calc.py': `import unittest
from unittest import mock
from calc import add

def setUpModule():
    assert add(1, 1) == 2

class Base(unittest.TestCase):
    number = 1

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.total = add(cls.number, 1)

    def setUp(self):
        self.assertEqual(add(1, 1), 2)
        self.addCleanup(lambda: self.assertEqual(add(1, 1), 2))

    def test_total(self):
        """The total, of each class."""
        self.assertEqual(self.total, add(self.number, 1))

class Derived(Base):
    number = 2

    def test_sub(self):
        for n in range(3):
            with self.subTest(n=n):
                self.assertEqual(add(n, 1), n + 1)

    def test_raises(self):
        with self.assertRaises(TypeError) as caught:
            add(1, None)
        self.assertIn('None', str(caught.exception))
        self.assertRaisesRegex(TypeError, 'None', add, 1, None)

    def test_mocked(self):
        with mock.patch('calc.add', return_value=3) as made:
            import calc
            self.assertEqual(calc.add(1, 1), 3)
        made.assert_called_once_with(1, 1)

    def test_opposites(self):
        self.assertTrue(add(1, 1) == 2)
        self.assertFalse(add(1, 1) == 3)
        self.assertIsNotNone(add(1, 1))
        self.assertNotEqual(add(1, 1), 3)
        self.assertAlmostEqual(add(0.1, 0.2), 0.3)
        self.assertCountEqual([add(1, 1), 1], [1, 2])

class Asynchronous(unittest.IsolatedAsyncioTestCase):
    async def test_awaited(self):
        async def give():
            return add(1, 1)
        self.assertEqual(await give(), 2)
`,
    },
  },
  {
    title: 'tests that undo at their ends what they have done, behind their assertions',
    runner: 'pytest',
    patch: { 'calc/__init__.py': REGISTRY },
    hidden: {
      'tests/test_calc.py': `import pytest
from calc import register, size, total, unregister
def test_alpha():
    register('a')
    assert size() == 1
    assert total(1) == 5
    unregister('a')
def test_beta():
    register('a')
    assert size() == 1
    unregister('a')
@pytest.mark.parametrize('n, expected', [(1, 5), (2, 6)])
def test_gamma(n, expected):
    register('b')
    assert total(n) == expected
    unregister('b')
class TestDelta:
    def test_delta(self):
        register('b')
        assert size() == 1
        unregister('b')
`,
      'tests/test_size.py': `from calc import register, size, unregister
def test_size():
    register('b')
    assert size() == 1
    unregister('b')
`,
    },
  },
  {
    title: 'cases that undo at their ends what they have done, and a base that wants attributes',
    runner: 'unittest',
    pristine: {
      'tests/labelled.py': `import unittest
class LabelTestCase(unittest.TestCase):
    def setUp(self):
        self.first = self.labels[0]
`,
    },
    patch: { 'calc/__init__.py': REGISTRY },
    hidden: {
      'tests/test_calc.py': `import unittest
from calc import register, size, total, unregister
from tests.labelled import LabelTestCase
class RegisterTest(LabelTestCase):
    labels = ['a', {'b'}]
    maker = other = unittest.TestCase
    def test_alpha(self):
        register(self.first)
        self.assertEqual(size(), 1)
        self.assertEqual(total(1), 5)
        unregister(self.first)
    def test_beta(self):
        register(self.first)
        self.assertEqual(size(), 1)
        unregister(self.first)
class SizeTest(unittest.TestCase):
    def test_size(self):
        register('a')
        self.assertEqual(size(), 1)
        unregister('a')
`,
    },
  },
  {
    // As tests of Pylint that check themselves, and of Jinja that show their own lines.
    title: 'a test that reads its own file',
    runner: 'pytest',
    hidden: {
      'tests/test_calc.py': `import os
from calc import add
def test_lines():
    with open(os.path.abspath(__file__)) as file:
        assert len([line for line in file if line.startswith('def ')]) == add(1, 1)
def test_beside():
    assert len(os.path.dirname(os.path.abspath(__file__)).split(os.sep)) >= add(1, 1)
`,
    },
  },
  {
    // As Django marks tests that a database cannot run.
    title: 'a function of the tests that the code under test has them skip',
    runner: 'unittest',
    patch: {
      'calc/__init__.py': `import sys, unittest
def total(n): return n + 4
def skip(module, name):
    setattr(sys.modules[module], name, unittest.skip('no server')(getattr(sys.modules[module], name)))
`,
    },
    hidden: {
      'tests/test_calc.py': `import unittest
from calc import skip, total
def served(): return total(1)
class SkipTest(unittest.TestCase):
    def test_skip(self):
        self.assertEqual(total(1), 5)
        skip(__name__, 'served')
        self.assertIs(served.__unittest_skip__, True)
        self.assertEqual(served.__unittest_skip_why__, 'no server')
`,
    },
  },
  {
    // As tests of Sphinx that build into one folder.
    title: 'a test of what a later test leaves in a folder',
    runner: 'pytest',
    hidden: {
      'tests/test_calc.py': `import os, tempfile
from calc import add
PLACE = os.path.join(tempfile.gettempdir(), 'shared-by-tests')
def test_nothing_is_there():
    total = add(1, 2)
    assert not os.path.exists(PLACE + str(total))
def test_something_is_there():
    total = add(1, 2)
    os.makedirs(PLACE + str(total), exist_ok=True)
    assert os.path.exists(PLACE + str(total))
`,
    },
  },
  {
    title: 'arrays that hold nothing, or nothing that is a number',
    runner: 'pytest',
    hidden: {
      'tests/test_calc.py': `import numpy as np
from numpy.testing import assert_array_equal
from calc import add
def test_empty():
    expected = np.array([])
    assert_array_equal(np.zeros(add(-1, 1)), expected)
    assert np.array_equal(np.zeros(add(-1, 1)), expected)
def test_no_number():
    expected = np.array([np.nan])
    assert_array_equal(np.full(add(0, 1), np.nan), expected)
def test_listed():
    assert_array_equal(np.full(add(0, 1), np.nan), [np.nan])
def test_scalar():
    expected = np.float64('nan')
    assert np.isclose(np.full(add(0, 1), np.nan)[0], expected, equal_nan=True)
`,
    },
  },
  {
    // As functions of numpy before its dispatchers, and of networkx when they are called first.
    title: 'installed functions that their library makes of text',
    runner: 'pytest',
    hidden: {
      'tests/test_calc.py': `from networkx import is_connected, path_graph
from calc import add
def test_connected():
    assert is_connected(path_graph(add(1, 2)))
def test_nodes():
    assert list(path_graph(add(1, 2)).nodes) == [0, 1, 2]
`,
    },
  },
  ...(['pytest', 'unittest'] as const).map((runner) => ({
    // As models of Django that a test declares.
    title: `tests that cannot run twice in a process, under ${runner}`,
    runner,
    patch: { 'calc/__init__.py': KINDS },
    hidden: {
      'tests/test_calc.py': `import unittest
from calc import declare, total
class DeclareTest(unittest.TestCase):
    def test_one(self):
        self.assertEqual(declare('one'), 'one:3')
        with self.assertRaises(RuntimeError):
            declare('one')
    def test_three(self):
        found = declare('three')
        self.assertEqual(found, 'three:5')
        self.assertEqual(total(1), 5)
${runner === 'unittest' ? '' : `def test_four():\n    assert declare('four') == 'four:4'\n`}`,
    },
  })),
  {
    title: 'objects that compare by a part of a rare kind, and large numbers',
    runner: 'pytest',
    patch: { 'calc/__init__.py': PARTS },
    hidden: {
      'tests/test_calc.py': `import collections, datetime, functools, pathlib, re, uuid
import pytest
from calc import Errors, Lazy, Linked, Named, Part, Ring, Shared, Slotted, same
class Words(dict): pass
class Word(str): pass
class Number(int): pass
KEYS = [
    None, 2 ** 70, 1e12, uuid.UUID(int=2 ** 99), pathlib.PurePosixPath('/a'), re.compile('a'), range(3), slice(1, 2), bytearray(b'x'), int, Part, len,
    functools.partial(int, '1'), Words(a=1), Word('a'), Number(3), collections.OrderedDict(a=1), collections.Counter('aab'), collections.deque([1]),
    collections.defaultdict(list, a=[1]), datetime.timezone.utc, 2 + 1j,
]
@pytest.mark.parametrize('key', KEYS)
def test_part(key):
    expected = Part(key)
    assert same(Part(key)) == expected
@pytest.mark.parametrize('key', KEYS)
def test_slotted(key):
    expected = Slotted(key)
    assert same(Slotted(key)) == expected
def test_uuid():
    key = uuid.uuid4()
    expected = Part(key)
    assert same(Part(key)) == expected
    assert same(key) == key
def test_errors():
    assert Errors(['a']) == same(['a'])
def test_linked():
    expected = Ring('a', 'b')
    assert same(Ring('a', 'b')) == expected
    assert Ring(1) == same(Ring(1))
def test_chain():
    expected = Linked('a', 'b')
    assert same(Linked('a', 'b')) == expected
    assert same(Linked('c')) != Linked('d')
def test_named():
    expected = Named('a', uuid.UUID(int=5))
    assert Named('b', uuid.UUID(int=5)) == same(expected)
def test_shared():
    expected = Shared()
    assert same(Shared()) == expected
def test_lazy():
    expected = Lazy(lambda: Part(re.compile('b')))
    assert same(Lazy(lambda: Part(re.compile('b')))) == expected
def test_large():
    large = 2 ** 70
    assert same(1 << 70) == large
    assert same(4e15) == pytest.approx(4e15)
`,
    },
  },
  {
    title: 'cases of which only some have a base with the assertions that the module uses',
    runner: 'unittest',
    pristine: {
      'tests/own_base.py': `import unittest
class OwnBase(unittest.TestCase):
    def assertRaisesMessage(self, kind, text, *call):
        with self.assertRaisesRegex(kind, text): call[0](*call[1:])
`,
    },
    patch: REPAIR,
    hidden: {
      'tests/test_calc.py': `import unittest
from calc import total
from tests.own_base import OwnBase
@unittest.skipIf(False, 'never')
class DecoratedTest(unittest.TestCase):
    places = [1]
    def test_total(self): self.assertEqual(total(1), 5)
class ErrorTest(OwnBase):
    def test_error(self): self.assertRaisesMessage(ValueError, 'must be positive', total, -1)
`,
    },
  },
  {
    title: 'sub-tests of unittest under pytest',
    runner: 'pytest',
    hidden: {
      'tests/test_calc.py': `import unittest
from calc import add

class SumTest(unittest.TestCase):
    def test_sub(self):
        for n in range(3):
            with self.subTest(n=n):
                self.assertEqual(add(n, 1), n + 1)
`,
    },
  },
  {
    title: 'a folder of tests that is named as a module of the library is',
    runner: 'pytest',
    pristine: { 'test/__init__.py': '', 'test/helper.py': 'FIVE = 5\n' },
    hidden: {
      'test/test_calc.py':
        'from calc import add\nfrom test.helper import FIVE\n\ndef test_add():\n    assert add(2, 3) == FIVE\n',
    },
  },
  {
    title: 'modules of the library that nothing has imported before',
    runner: 'pytest',
    hidden: {
      'tests/test_calc.py':
        "import colorsys, sched\nfrom calc import add\n\ndef test_add():\n    assert 'site-packages' not in colorsys.__file__ and hasattr(sched, 'scheduler')\n    assert add(2, 3) == 5\n",
    },
  },
  {
    title: 'a module in Latin-1 with the ends of lines of Windows',
    runner: 'pytest',
    hidden: {
      'tests/test_calc.py':
        '"""Text."""\r\nfrom __future__ import annotations\r\nfrom calc import add\r\n\r\ndef test_add():\r\n    assert add("\u00e9", "e") == "\u00e9e"\r\n',
    },
  },
  {
    title: 'ends of their own and functions inside',
    runner: 'pytest',
    patch: REPAIR,
    hidden: {
      'tests/test_calc.py': `from calc import total
def test_a():
    def give(n):
        return total(n)
    if give(1) == 5:
        return
    assert False
def test_b():
    def check(n):
        assert total(n) == n + 4
    for n in (1, 2): check(n)
def test_c():
    try:
        assert total(1) == 6
        return
    except AssertionError:
        pass
`,
    },
  },
  {
    title: 'patterns of texts',
    runner: 'pytest',
    patch: REPAIR,
    hidden: {
      'tests/test_calc.py': `import re, pytest
from calc import total, text
MESSAGE = 'must be'
def test_a():
    with pytest.raises(ValueError, match=r'must be \\w+ \\(got -\\d\\)'):
        total(-1)
def test_b():
    assert re.match(r'line \\d', text(3))
    assert re.search(MESSAGE, 'must be') and not re.search('x', text(3))
def test_c():
    with pytest.raises(ValueError, match=MESSAGE) as caught:
        total(-1)
    assert caught.value.args
`,
    },
  },
  {
    title: 'conditions, classes in classes and inherited tests',
    runner: 'pytest',
    patch: REPAIR,
    hidden: {
      'tests/test_calc.py': `import sys
from calc import total
if sys.version_info > (3,):
    def test_a():
        assert total(1) == 5
else:
    def test_a():
        assert total(1) == 6
class TestOuter:
    n = 1
    class TestInner:
        def test_b(self):
            assert total(2) == 6
    def test_c(self):
        assert total(self.n) == self.n + 4
    def test_d(self):
        assert self.n == 1
class TestDerived(TestOuter):
    n = 3
    def test_d(self):
        assert self.n == 3
`,
    },
  },
  {
    title: 'equalities that are asked for in other ways',
    runner: 'pytest',
    patch: REPAIR,
    hidden: {
      'tests/test_calc.py': `import operator, pytest
from calc import total, made, Sum
@pytest.mark.parametrize('given, expected', [(1, 5), (2, 6)])
def test_a(given, expected):
    assert (total(given) == expected) is True
    assert not total(given) != expected
    assert operator.eq(total(given), expected)
def test_b():
    assert total(1) == 5 or total(1) == 6
    assert all(total(a) == b for a, b in [(1, 5), (2, 6)])
    assert bool(total(1) in (5, 6))
def test_c():
    assert made(1).equals(Sum(5))
    if total(1) != 5:
        pytest.fail('x')
    elif total(2) != 6:
        raise AssertionError('x')
def test_d():
    if total(1) != 5: raise AssertionError('x')
`,
    },
  },
  {
    title: 'inherited cases, patterns and sub-tests',
    runner: 'unittest',
    patch: REPAIR,
    hidden: {
      'tests/test_calc.py': `import unittest
from calc import total, text
class Common:
    n = 1
    def test_a(self):
        self.assertTrue(total(self.n) == self.n + 4)
        self.assertFalse(total(self.n) != self.n + 4)
class One(Common, unittest.TestCase): pass
class Two(Common, unittest.TestCase):
    n = 2
    def test_b(self):
        with self.assertRaisesRegex(ValueError, r'must be \\w+'):
            total(-1)
        self.assertRaisesRegex(ValueError, 'must', total, -1)
        self.assertRegex(text(3), r'line \\d')
    def test_c(self):
        for n in (1, 2):
            with self.subTest(n=n):
                self.assertEqual(total(n), n + 4)
        return None
`,
    },
  },
  {
    title: 'code that is interrupted, which ends a run where a test does not expect it',
    runner: 'pytest',
    patch: { 'calc/__init__.py': STOPPING },
    hidden: {
      'tests/test_calc.py': `import pytest
from calc import stop, total
STOPS = KeyboardInterrupt
def test_total(): assert total(1) == 5
def test_block():
    with pytest.raises(KeyboardInterrupt): stop()
def test_words():
    with pytest.raises(KeyboardInterrupt, match='stopped'): stop()
def test_call(): pytest.raises(KeyboardInterrupt, stop)
def test_both():
    with pytest.raises((ValueError, KeyboardInterrupt)): stop()
def test_constant():
    with pytest.raises(STOPS): stop()
def test_exit():
    with pytest.raises(pytest.exit.Exception): stop(pytest.exit.Exception)
@pytest.mark.parametrize('kind', [KeyboardInterrupt, ValueError, SystemExit])
def test_kinds(kind):
    with pytest.raises(kind): stop(kind)
def test_local():
    expected = KeyboardInterrupt
    with pytest.raises(expected): stop()
def test_caught():
    try: stop()
    except KeyboardInterrupt as error: assert str(error) == 'stopped'
`,
      'tests/test_any.py': `import pytest
from calc import stop
def test_any():
    with pytest.raises(BaseException): stop()
`,
    },
  },
  {
    title: 'code that is interrupted, under a runner that ends with it',
    runner: 'unittest',
    patch: { 'calc/__init__.py': STOPPING },
    hidden: {
      'tests/test_calc.py': `import unittest
from calc import stop, total
class T(unittest.TestCase):
    stops = KeyboardInterrupt
    def test_total(self): self.assertEqual(total(1), 5)
    def test_block(self):
        with self.assertRaises(KeyboardInterrupt): stop()
    def test_words(self):
        with self.assertRaisesRegex(KeyboardInterrupt, 'stopped'): stop()
    def test_call(self): self.assertRaises(KeyboardInterrupt, stop)
    def test_attribute(self):
        with self.assertRaises(self.stops): stop()
    def test_kinds(self):
        for kind in (KeyboardInterrupt, ValueError):
            with self.assertRaises(kind): stop(kind)
`,
    },
  },
  {
    title: 'tests that change what pytest itself looks at while they fail',
    runner: 'pytest',
    patch: { 'calc/__init__.py': STOPPING },
    hidden: {
      'tests/test_calc.py': `import os, sys
import pytest
from calc import place, total
def test_windows(monkeypatch):
    monkeypatch.setattr('os.name', 'nt')
    assert place() == 'drive'
@pytest.mark.parametrize('system, found', [('nt', 'drive'), ('posix', 'root')])
def test_systems(monkeypatch, system, found):
    monkeypatch.setattr(os, 'name', system)
    monkeypatch.setattr(sys, 'platform', 'win32')
    assert place() == found
def test_nowhere(monkeypatch, tmp_path):
    gone = tmp_path / 'gone'
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert total(1) == 5
def test_time(monkeypatch):
    monkeypatch.setattr('time.time', lambda: 0)
    assert total(2) == 6
`,
    },
  },
]

const CONFIGURED = `import pytest
from calc import total
@pytest.fixture
def five(): return 5
def test_total(five): assert total(1) == five
class TestTotal:
    @pytest.mark.parametrize('n, found', [(1, 5), (2, 6)])
    def test_many(self, n, found): assert total(n) == found
def test_negative():
    with pytest.raises(ValueError, match='positive'): total(-1)
`

/** Projects whose configuration is for all tests of a run, so each is played alone. */
export const HONEST_CONFIGURED: HonestTests[] = [
  {
    title: 'a configuration that leaves assertions as they are',
    pristine: { 'pytest.ini': '[pytest]\naddopts = --assert=plain\n' },
  },
  {
    title: 'warnings that are errors, and options and marks that must be known',
    pristine: {
      'setup.cfg': '[tool:pytest]\naddopts = --strict-markers --strict-config -x\nfilterwarnings = error\n',
    },
  },
  {
    title: 'a conftest that reads how a failure is described, and adds to it',
    pristine: {
      'conftest.py': `import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.failed: report.longrepr.addsection('where', item.nodeid)
def pytest_runtest_logreport(report):
    if report.failed: assert report.longrepr.reprcrash.lineno > 0
`,
    },
  },
].map((one) => ({ ...one, runner: 'pytest', patch: REPAIR, hidden: { 'tests/test_calc.py': CONFIGURED } }))
