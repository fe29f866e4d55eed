/**
 * Honest tests during which honest code raises something, or an earlier test ends early, because an expectation was altered in the
 * rehearsal: in their helpers, in blocks, behind conditions, and where an object is compared with one of another kind.
 */
import type { HonestTests } from './honest.ts'

const SOLVED: Record<string, string> = {
  'calc/__init__.py': `import contextlib
class Refused(Exception):
    pass
def total(n):
    if not isinstance(n, (int, float)):
        raise Refused('not a number: %r' % (n,))
    return n + 5370
def check_total(found, expected):
    if found != expected:
        raise Refused('%r is not %r' % (found, expected))
def assert_allclose(found, expected, margin=0.5):
    if abs(found - expected) > margin:
        raise Refused('far')
class Amount:
    def __init__(self, value):
        self.value = value
    def __eq__(self, other):
        if not isinstance(other, Amount):
            raise Refused('no amount: %r' % (other,))
        return self.value == other.value
    def __hash__(self):
        return hash(self.value)
class Small(Amount):
    def __init__(self, value):
        if not 0 < value < 3:
            raise Refused('too large')
        super().__init__(value)
class Transaction:
    def __enter__(self):
        return self
    def __exit__(self, kind, error, trace):
        if kind is not None:
            raise Refused('rolled back')
@contextlib.contextmanager
def guarded():
    try:
        yield
    except AssertionError:
        raise Refused('rolled back')
def mode():
    return 'full mode'
def only_in_parts():
    raise Refused('not in full mode')
def each(call, values):
    for value in values:
        call(value)
def raises(*kinds):
    def decorate(call):
        def test_of_errors(*given):
            try:
                call(*given)
            except kinds:
                return
            raise AssertionError('nothing was raised')
        return test_of_errors
    return decorate
HELD = []
def hold(value):
    if value in HELD:
        raise Refused('held already')
    HELD.append(value)
    return len(HELD)
def release():
    del HELD[:]
`,
}

export const HONEST_ERRORS: HonestTests[] = [
  {
    title: 'code raises because an expectation was altered',
    runner: 'pytest',
    patch: SOLVED,
    hidden: {
      'tests/test_calc.py': `import pytest
import calc
from calc import Amount, Refused, Small, total
def test_helper_that_raises():
    calc.check_total(total(1), 5371)
def test_helper_of_numbers():
    calc.assert_allclose(total(1), 5371.25)
def test_object_that_refuses_others():
    found = Amount(5371)
    assert found == Amount(5371)
    assert found in [Amount(5371)]
def test_objects_that_refuse_others():
    assert [Amount(total(1)), 3] == [Amount(5371), 3]
def test_object_that_refuses_values():
    assert Small(total(1) - 5370) == Small(1)
    assert [Small(total(2) - 5370)] == [Small(2)]
def test_block_that_raises():
    with calc.Transaction():
        assert total(1) == 5371
def test_block_that_is_a_generator():
    with calc.guarded():
        found = total(1)
        assert found == 5371
def test_condition():
    if calc.mode() == 'full mode':
        assert total(1) == 5371
    else:
        calc.only_in_parts()
def test_condition_alone():
    if calc.mode() == 'full mode':
        return
    calc.only_in_parts()
def test_error():
    with pytest.raises(Refused):
        total('x')
def test_error_then_value():
    with pytest.raises(Refused, match='not a number'):
        total('x')
    assert total(2) == 5372
def test_error_that_is_caught():
    try:
        total('x')
    except Refused as error:
        assert 'not a number' in str(error)
    else:
        assert False
def test_error_of_a_call():
    pytest.raises(Refused, total, 'x')
@calc.raises(Refused)
def test_error_by_a_decorator():
    total('x')
def test_values_that_are_given_away():
    seen = []
    def later(value):
        assert total(value) == 5371
        seen.append(value)
    calc.each(later, [1])
    assert seen == [1]
def test_near():
    assert total(1) == pytest.approx(5371.4, abs=0.5)
    assert {'one': total(1), 'two': total(2)} == pytest.approx({'one': 5371.2, 'two': 5372}, abs=0.5)
    assert [total(1)] == pytest.approx([5371.0])
def test_near_by_a_word():
    expected = 5371.1
    assert total(1) == pytest.approx(expected, rel=0.01)
def test_what_is_held_first():
    assert calc.hold(5371) == 1
    assert calc.hold(5372) == 2
    calc.release()
def test_what_is_held_next():
    assert calc.hold(5371) == 1
    assert calc.hold(5372) == 2
    calc.release()
`,
    },
  },
  {
    title: 'code raises because an expectation of a case was altered',
    runner: 'unittest',
    patch: SOLVED,
    hidden: {
      'tests/test_calc.py': `import unittest
import calc
from calc import Amount, Refused, total
class T(unittest.TestCase):
    def tearDown(self):
        calc.release()
    def test_helper_that_raises(self):
        calc.check_total(total(1), 5371)
    def test_object_that_refuses_others(self):
        self.assertEqual(Amount(5371), Amount(5371))
        self.assertIn(Amount(5371), [Amount(5371)])
    def test_block_that_raises(self):
        with calc.Transaction():
            self.assertEqual(total(1), 5371)
    def test_condition(self):
        if calc.mode() == 'full mode':
            self.assertEqual(total(1), 5371)
        else:
            calc.only_in_parts()
    def test_error(self):
        self.assertRaises(Refused, total, 'x')
        with self.assertRaisesRegex(Refused, 'not a number'):
            total('x')
    def test_parts(self):
        for n, expected in [(1, 5371), (2, 5372)]:
            with self.subTest(n=n):
                found = total(n)
                self.assertEqual(found, expected)
    def test_near(self):
        self.assertAlmostEqual(total(1) + 0.01, 5371, places=1)
        self.assertAlmostEqual(total(1), 5373, delta=3)
        self.assertAlmostEqual(5371.00000001, total(1))
    def test_what_is_held_first(self):
        self.assertEqual(calc.hold(5371), 1)
        self.assertEqual(calc.hold(5372), 2)
    def test_what_is_held_next(self):
        self.assertEqual(calc.hold(5371), 1)
        self.assertEqual(calc.hold(5372), 2)
`,
    },
  },
]
