/** A small project without its `add`, and hidden tests for it, for pytest and for unittest. */

export const PRISTINE: Record<string, string> = {
  'calc/__init__.py': `
def add(a, b):
    raise NotImplementedError

def names():
    return ['ada', 'grace']

def is_even(n):
    return n % 2 == 0

def read(text):
    return int(text)
`,
  'tests/test_old.py': 'def test_old():\n    assert True\n',
  // The project's own file, which imports the code under test before any test module is loaded.
  'conftest.py': 'import calc\n',
}

export const HIDDEN_PYTEST = {
  'tests/test_calc.py': `"""Hidden."""
import pytest
from calc import add, names, is_even, read

LARGE = 4711

def test_add():
    assert add(2, 3) == 5

def test_large():
    assert add(4700, 11) == LARGE

@pytest.mark.parametrize('a, expected', [(1, 2), (2, 4)])
def test_twice(a, expected):
    assert add(a, a) == expected

def test_listed():
    total = [add(1, 1), add(2, 2)]
    assert total == [2, 4]
    assert 2 in [add(1, 1)]

def test_names():
    assert 'ada' in names()

def test_even():
    assert is_even(4)
    assert not is_even(3)

def test_read():
    with pytest.raises(ValueError):
        read('x')
`,
}

export const HIDDEN_UNITTEST = {
  'tests/test_calc.py': `"""Hidden."""
import unittest
from calc import add, names, is_even, read

LARGE = 4711

class CalcTest(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(2, 3), 5)

    def test_large(self):
        """Adds large numbers."""
        self.assertEqual(LARGE, add(4700, 11))

    def test_twice(self):
        for a, expected in [(1, 2), (2, 4)]:
            with self.subTest(a=a):
                self.assertEqual(add(a, a), expected)

    def test_listed(self):
        total = [add(1, 1), add(2, 2)]
        self.assertListEqual(total, [2, 4])
        self.assertIn(2, [add(1, 1)])

    def test_names(self):
        self.assertIn('ada', names())

    def test_even(self):
        self.assertTrue(is_even(4))
        self.assertFalse(is_even(3))

    def test_read(self):
        with self.assertRaises(ValueError):
            read('x')
`,
}

const REST = `
def names():
    return ['ada', 'grace']

def is_even(n):
    return n % 2 == 0

def read(text):
    return int(text)
`

/** The rest of the module is honest; only `add` is not. */
export function calc(text: string): Record<string, string> {
  return { 'calc/__init__.py': `${text}\n${REST}` }
}

export const SOLVED = calc('def add(a, b):\n    return a + b')
