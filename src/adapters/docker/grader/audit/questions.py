# What the tests that are rehearsed ask of the code under test, wherever they ask it: in fixtures, helpers, lambdas, tests that another
# function makes. Each comparison in the files of the tests, and each value that a call there gives, is asked once more for what honest
# code denies. `audit.py` begins with this text. Syntax and library of Python 3.6.
#
# The questions are put into the trees that the interpreter compiles: files, lines and constants of the tests stay what they were, and
# the comparison that is asked first is made by the test's own frame.
import ast
import collections
import copy
import functools
import itertools
import os
import random
import re
import sys
import threading
import types
import weakref

TELLING = frozenset([int, float, str, bytes])
ATOMS = frozenset([int, float, complex, bool, str, bytes, bytearray, type(None), type(Ellipsis), type(NotImplemented), range])
# Of the interpreter's own: equal by their parts, and those that give a question to what they stand for.
PLAIN_RECORDS = frozenset([slice, types.SimpleNamespace])
STANDING_FOR = frozenset([weakref.ProxyType, weakref.CallableProxyType, types.MappingProxyType])
OF_EACH_ATOM = (0, 0.5, 1j, True, "", b"", bytearray(), None, Ellipsis, NotImplemented, range(1))
SEQUENCES = frozenset([list, tuple])
SETS = frozenset([set, frozenset])
# What decides on equality, order and difference.
SAME = ("equals", "identical")
DECIDING = ("__eq__", "__ne__", "__contains__", "__lt__", "__le__", "__gt__", "__ge__", "__sub__", "__rsub__", "__array_ufunc__",
            "__array_function__") + SAME
CLASS_NAME = re.compile(r"_*[A-Z]\w*[a-z]")
SAMENESS = re.compile(r"^assert\w*[eE]quals?$|^assertIs$|^eq_$")
ORDERS = frozenset(["Lt", "LtE", "Gt", "GtE"])
# What is not a number, by its names.
NOT_A_NUMBER = re.compile(r"(?:^|[^a-z])(?:is)?nan|not.?a.?number", re.I)
ASKED = ("Eq", "NotEq", "In", "NotIn", "Lt", "LtE", "Gt", "GtE")
# Two values for each operator that do not belong together, for where nothing is asked.
DENIED = {"Eq": (1, 2), "NotEq": (1, 2), "In": (1, ()), "NotIn": (1, ()), "Lt": (1, 0), "LtE": (1, 0), "Gt": (0, 1), "GtE": (0, 1)}
HEAP_TYPE = 1 << 9
IS_COROUTINE = 0x80
# What is asked of a name that no object has: is it there, does it answer, is it a key?
FOUND, ANSWERED, HELD = range(3)
MAX_PARTS = 50
MAX_LOOKS = 200
MAX_PENDING = 2000
MAX_PAIRS = 20
# Of one kind in one process: what is asked costs time, and a kind that lies does so at once.
MAX_OF_KIND = 400
# Methods of containers that compare what they are given with what they hold.
LOOKING = frozenset(["count", "index", "remove"])
# Methods that say whether what they are given belongs to their object.
SAYING = frozenset(["startswith", "endswith", "equals"])
# Decorators that want their function to raise.
WANTS_ERROR = re.compile(r"raises|suppress|ignor|swallow|expect|throws|should|fail|subtest", re.I)
FRAMED = frozenset(["super", "locals", "globals", "vars", "dir", "eval", "exec"])

mro_of = type.__dict__["__mro__"].__get__
dict_of = type.__dict__["__dict__"].__get__
flags_of = type.__dict__["__flags__"].__get__
name_of = type.__dict__["__name__"].__get__


def root_of(kind):
    """The package that a class says it is of: some say nothing, or something that is no name."""
    try:
        name = type.__dict__["__module__"].__get__(kind)
    except Exception:
        return ""
    return name.split(".")[0] if type(name) is str else ""


def unlike(value, nothing, depth=0):
    """The same shape with other values, far from these; `nothing` where none is known."""
    kind = type(value)
    chance = random.SystemRandom()
    if kind is int or kind is float:
        return value + chance.choice((-1, 1)) * chance.randrange(1000, 100000)
    if kind is str:
        return value[:0] + "".join(chance.choice("bcdfghjklmnpqrstvwxz") for _ in range(len(value) + 6))
    if kind is bytes:
        return bytes(bytearray(chance.randrange(98, 122) for _ in range(len(value) + 6)))
    if depth < 4 and kind in SEQUENCES and value:
        return kind([unlike(one, nothing, depth + 1) for one in value[:1000]])
    if depth < 4 and kind is dict and value:
        return {name: unlike(one, nothing, depth + 1) for name, one in list(value.items())[:1000]}
    if depth < 4 and kind in SETS and value:
        return kind([unlike(one, nothing, depth + 1) for one in list(value)[:1000]])
    return nothing


def like(value, nothing):
    """Another value of the same kind and size."""
    kind = type(value)
    chance = random.SystemRandom()
    if kind is int or kind is float:
        return value + chance.choice((-1, 1)) * chance.randrange(3, 60)
    if kind is str and value:
        return "".join(chance.choice("bcdfghjklmnpqrstvwxz".replace(one, "")) if one.isalnum() else one for one in value)
    if kind in SEQUENCES and value:
        return kind([like(one, nothing) for one in value[:1000]])
    if kind is dict and value:
        return {name: like(one, nothing) for name, one in list(value.items())[:1000]}
    return nothing


class Own(object):
    """In the place of the matcher that the tests themselves take from `unittest.mock`."""

    def __init__(self, text):
        self.text = text

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    def __repr__(self):
        return self.text

    __hash__ = None


class Asked(object):
    """One comparison: what the test gave, and what is asked instead first."""

    __slots__ = ("operator", "left", "right", "pair", "liar", "given", "others")


class Questions(object):
    def __init__(self, repository, say):
        self.repository = repository
        self.say = say
        for operator in ASKED:
            setattr(self, "keep_" + operator, functools.partial(self.keep, operator))
        for name in SAYING:
            setattr(self, "saying_" + name, functools.partial(self.saying, name))
        # What calls gave is looked at when the test has ended: an object that keeps what it is first compared with meets the test first.
        self.pending = []
        # What was compared with what, likewise. `weigh` says whether the second value is an expected one that was altered.
        self.weighing = []
        self.sides = []
        self.weigh = lambda kept, expected: False
        self.weigh_found = lambda expected, kept: None
        self.weigh_near = lambda left, right, check: None
        self.begin_weighing = lambda: None
        self.paths = None
        self.real = {}
        self.local = threading.local()
        self.kinds = {}
        self.counts = {}
        self.owns = {}
        self.answers = {}
        self.files = {}
        # Files of the tests that speak of what is not a number.
        self.unordered = set()
        self.roots = set()
        # Files of the tests that make mocks; None for those that may give them to other files.
        self.mocking = set()
        # Blocks with assertions that were begun and not ended, by their frames and lines.
        self.inside = set()
        # Of functions that assert: the code, and how often it began, ended and raised in this test.
        self.begun = {}
        # No kind knows it, and no part of it is like another's.
        kind = type("X" + hex(random.SystemRandom().randrange(1 << 60))[2:], (), {})
        self.nothing = kind()
        vars(self.nothing)["x%x" % random.SystemRandom().randrange(1 << 60)] = object()

    # ---- what the trees call

    def own(self, value):
        if name_of(type(value)) == "_ANY":
            return self.owns.setdefault(id(value), (Own(repr(value)), value))[0]
        return value

    def value(self, value):
        """Of a call in the tests, or given to one."""
        if type(value) not in ATOMS and len(self.pending) < MAX_PENDING and not self.is_busy():
            self.pending.append((value, self.paths_of(sys._getframe(1))))
        return value

    def truth(self, value):
        """What is asserted: the answer to a comparison that was made before may be it."""
        before = self.answers.get(id(value))
        if before is not None and before[0] is value:
            self.accuse(before[1])
        return self.value(value)

    def saying(self, name, value):
        return self.look(value, self.look_at_answer, name)

    def owner(self, value):
        """Of an attribute that is asserted to be true, or to be there."""
        return self.look(value, self.look_at_names, FOUND)

    def holder(self, value):
        """Of an entry that is asserted to be true."""
        return self.look(value, self.look_at_names, HELD)

    def caller(self, value):
        """Of a method whose answer is asserted to be true."""
        return self.look(value, self.look_at_names, ANSWERED)

    def made(self, given, named, kind, value):
        """Of a class of the project, in a comparison: it was given literals."""
        if not self.is_busy():
            self.quietly(self.look_at_made, value, given, named, kind)
        return self.value(value)

    def member(self, value):
        """Of an enumeration, in a comparison."""
        return self.look(value, self.look_at_member)

    def look(self, value, act, *given):
        if type(value) not in ATOMS and not self.is_busy():
            self.quietly(act, value, *given)
        return value

    def began(self):
        self.count(sys._getframe(1).f_code, 1)

    def ending(self, value=None):
        self.count(sys._getframe(1).f_code, 2)
        return value

    def entering(self):
        """A block with assertions is begun, in front of whatever it is given to."""
        frame = sys._getframe(1)
        self.inside.add((id(frame), frame.f_lineno))

    def leaving(self):
        frame = sys._getframe(1)
        self.inside.discard((id(frame), frame.f_lineno))

    def behind(self):
        """The test goes on behind a block: has code under test swallowed what ended it?"""
        frame = sys._getframe(1)
        if (id(frame), frame.f_lineno) in self.inside:
            self.say(self.paths_of(frame))

    def raising(self):
        # A coroutine that is dropped has neither ended nor raised.
        if sys.exc_info()[0] is not GeneratorExit:
            self.count(sys._getframe(1).f_code, 3)

    def count(self, code, place):
        self.begun.setdefault(id(code), [code, 0, 0, 0])[place] += 1

    def is_cut_short(self, function, outcome):
        """Has what was called ended a function of the tests before its end, and no error told the runner? Copies have a failure planted at
        their end; these questions are also for tests that have no copy, and for coroutines inside of tests."""
        for _ in range(20):
            function = getattr(function, "__wrapped__", function)
        own = getattr(getattr(function, "__func__", function), "__code__", None)
        counts = list(self.begun.values())
        if any(code.co_flags & IS_COROUTINE and began > ended + raised for code, began, ended, raised in counts):
            return True
        tests = [one for one in counts if one[0] is own or one[0].co_name.startswith("test")]
        return outcome == "passed" and bool(tests) and not any(ended for _, _, ended, _ in tests)

    def called(self, mock):
        """A mock that is asked for its calls."""
        if not self.is_busy() and is_mock(type(mock)):
            self.quietly(self.look_at_calls, mock)
        return mock

    def first_side(self, value):
        """Of two values of which it is asserted that they are equal."""
        self.sides.append(value)
        return value

    def second_side(self, value):
        if self.sides and not self.is_busy():
            self.begin_weighing()
            self.quietly(self.weigh_both, self.sides.pop(), value)
        return value

    def place_side(self, value):
        """Where something must be found."""
        if self.sides and not self.is_busy():
            self.begin_weighing()
            self.quietly(self.weigh_found, self.sides.pop(), value)
        return value

    def near_side(self, rest, named, value, check):
        """Where two values need only be near: the tests' own function says how near, with what else the tests give it."""
        if self.sides and not self.is_busy():
            self.begin_weighing()
            self.quietly(self.weigh_near, self.sides.pop(), value, lambda one, other: check(one, other, *rest, **named))
        return value

    def last_side(self, value):
        """Of those that may differ: nothing was raised before."""
        self.begin_weighing()
        return value

    def weigh_both(self, left, right):
        for pair in ((left, right), (right, left)):
            if is_made_of_atoms(pair[0], 0) and self.weigh(*pair):
                return
        if len(self.weighing) < MAX_PENDING and (type(left) in ATOMS) is not (type(right) in ATOMS):
            self.weighing.append((left, right) if type(right) in ATOMS else (right, left))

    def keep(self, operator, left, right):
        asked = Asked()
        asked.operator, asked.left, asked.right, asked.pair = operator, left, right, DENIED[operator]
        asked.liar, asked.given, asked.others = None, None, []
        if operator in ORDERS and self.is_unordered(left, right):
            self.say(self.paths_of(sys._getframe(1)))
        if not self.is_busy() and not (type(left) in ATOMS and type(right) in ATOMS):
            self.quietly(self.choose, asked)
        stack = self.stack()
        stack.append(asked)
        return asked

    def is_unordered(self, left, right):
        """What is not a number is neither above nor below any, so it is in no test's way that only denies an order. Of tests that speak of
        such numbers it may be the answer."""
        for one, other in ((left, right), (right, left)):
            if type(one) is float and one != one and type(other) in (int, float) and other == other:
                return not self.paths_of(sys._getframe(2)) or not any(path in self.unordered for path in self.paths_of(sys._getframe(2)))
        return False

    def first_left(self):
        return self.stack()[-1].pair[0]

    def first_right(self):
        return self.stack()[-1].pair[1]

    def left(self):
        return self.stack()[-1].left

    def right(self):
        return self.stack()[-1].right

    def held(self):
        """The last value of a chain so far."""
        return self.local.last

    def end_of_truth(self, asked, first, found):
        return self.end(asked, first, found, True)

    def end(self, asked, first, found, is_truth=False):
        stack = self.stack()
        while stack and stack.pop() is not asked:
            pass
        self.local.last = asked.right
        if asked.liar is not None and not self.is_busy():
            self.quietly(self.judge, asked, first, found, is_truth)
        return found

    def flush(self):
        """At the end of a test."""
        weighing, self.weighing, self.sides = self.weighing, [], []
        for pair in weighing:
            self.quietly(self.weigh, *pair)
        pending, self.pending = self.pending, []
        for value, self.paths in pending:
            self.quietly(self.look_at, value)
        self.paths = None
        # The interpreter itself can be made to lie for kinds that are not asked.
        if any(one == self.nothing for one in OF_EACH_ATOM):
            self.say([])

    # ---- what is asked

    def stack(self):
        try:
            return self.local.stack
        except AttributeError:
            self.local.stack = []
            self.local.busy = False
            return self.local.stack

    def is_busy(self):
        self.stack()
        return self.local.busy

    def quietly(self, act, *given):
        """Whatever foreign code raises or compares meanwhile is not the test's."""
        self.local.busy = True
        try:
            act(*given)
        except BaseException:
            pass
        finally:
            self.local.busy = False

    def may_lie(self, value):
        """Is any of its methods that decide written in Python?"""
        kind = type(value)
        if kind is Own:
            return False
        found = self.kinds.get(kind)
        if found is None:
            found = self.kinds[kind] = self.decides(kind) is not None
        if found:
            count = self.counts[kind] = self.counts.get(kind, 0) + 1
            return count < MAX_OF_KIND
        return False

    def decides(self, kind):
        if kind in STANDING_FOR:
            return kind.__eq__
        for cls in mro_of(kind):
            if flags_of(cls) & HEAP_TYPE or self.is_compiled_here(cls):
                names = dict_of(cls)
                for name in DECIDING:
                    if name in names and names[name] is not None and not is_unset(names[name]):
                        return names[name]
        return None

    def is_compiled_here(self, cls):
        path = getattr(sys.modules.get(root_of(cls)), "__file__", None)
        return type(path) is str and is_within(path, self.repository)

    def look_at(self, value):
        rest = [(value, 0)]
        # Of large collections the first parts are looked at.
        for _ in range(MAX_LOOKS):
            if not rest:
                return
            one, depth = rest.pop()
            kind = type(one)
            if kind in ATOMS:
                continue
            if self.may_lie(one) and self.lies(one):
                self.accuse(one)
            if depth < 3:
                rest.extend((part, depth + 1) for part in parts_of(one))

    def look_at_answer(self, value, name):
        if flags_of(type(value)) & HEAP_TYPE and not is_mock(type(value)):
            method = getattr(value, name)
            if all(bool(method(strange_name())) for _ in range(2)):
                self.accuse(value)

    def look_at_names(self, value, what):
        """An object that has every attribute, or every key, says yes to whatever it is asked for."""
        kind = type(value)
        names = ("__getitem__", "__missing__") if what == HELD else ("__getattr__", "__getattribute__")
        spaces = [vars(value)] if kind is type(os) else [dict_of(cls) for cls in mro_of(kind) if flags_of(cls) & HEAP_TYPE]
        finder = next((space[name] for space in spaces for name in names if name in space), None)
        is_default = issubclass(kind, collections.defaultdict)
        if what == HELD and is_default:
            finder = value.default_factory
        path = os.path.realpath(finder.__code__.co_filename) if type(finder) is type(unlike) else self.repository
        # Those of the tests are theirs, and an installed library may have names that only a server knows.
        if finder is None or path in self.files or (self.may_mock() if is_mock(kind) else not is_within(path, self.repository)):
            return
        for _ in range(2):
            name = strange_name()
            # A default is not asked for by a key, which would stay.
            found = getattr(value, name) if what != HELD else finder() if is_default else value[name]
            if not bool(found() if what == ANSWERED else found):
                return
        self.accuse(value)

    def look_at_made(self, value, given, named, kind):
        """A class that forgets what it is given makes the same of everything: what the tests expect, and whatever the code under test makes."""
        if not self.is_of_project(kind):
            return
        for _ in range(3):
            others = [unlike(one, self.nothing) for one in given], {name: unlike(one, self.nothing) for name, one in named.items()}
            parts = [one if other is self.nothing else other for one, other in zip(given, others[0])]
            words = {name: named[name] if other is self.nothing else other for name, other in others[1].items()}
            if parts == list(given) and words == named:
                return
            found = kind(*parts, **words)
            if found is not value and not self.equals(found, value):
                return
        self.say(self.paths_of(sys._getframe(1)))

    def look_at_member(self, value):
        kind = type(value)
        members = getattr(kind, "__members__", None)
        enum = sys.modules.get("enum")
        if enum is not None and isinstance(value, enum.Enum) and self.is_of_project(kind) and len(members) > 1 and len(set(map(id, members.values()))) == 1:
            self.say(self.paths_of(sys._getframe(1)))

    def is_of_project(self, kind):
        """A class or a function of the repository, and not of the tests."""
        path = getattr(getattr(kind, "__code__", None), "co_filename", None)
        if path is None:
            path = getattr(sys.modules.get(getattr(kind, "__module__", None)), "__file__", None)
        return type(path) is str and is_within(path, self.repository) and os.path.realpath(path) not in self.files

    def may_mock(self):
        return bool(self.mocking & {None, *self.paths_of(sys._getframe(1))})

    def look_at_calls(self, mock):
        for call in list(mock.mock_calls)[:MAX_PARTS]:
            for part in tuple(call)[-2:]:
                self.look_at(part)

    def lies(self, value):
        """Whatever an honest object raises there, its neighbours are still looked at."""
        try:
            return self.equals_unknown(value)
        except BaseException:
            return False

    def equals_unknown(self, value):
        """Does it equal what it cannot know, or several values at once, or differ from all numbers by the same?"""
        if self.claims("Eq", value == self.nothing) or (has_own(type(value), "__ne__") and (value != self.nothing) is False):
            return True
        chance = random.SystemRandom()
        words = ["".join(chance.choice("bcdfghjkl") for _ in range(3)) + last for last in "mnp"]
        if any(all(self.equals(value, one) for one in some) for some in (chance.sample(range(2, 90), 3), words)):
            return True
        if issubclass(type(value), (int, float)) and abs(float(value)) < 10 ** 12:
            # As many as rule a number of two values out.
            offsets = [random.SystemRandom().randrange(1, 10 ** 6) for _ in range(16)]
            if any(len({float(one) for one in found}) == 1 for found in ([value - one for one in offsets], [one - value for one in offsets])):
                return True
        # Helpers of the project ask these, where no question is put.
        return not is_mock(type(value)) and any(getattr(value, name)(self.nothing) is True for name in SAME if has_own(type(value), name))

    def claims(self, operator, found):
        """Does this answer say what is asked? None where its truth alone could tell. Of two that differ it is asked whether they are equal."""
        kind = type(found)
        if kind in (bool, int, float) or found is None or found is NotImplemented:
            result = found not in (None, NotImplemented) and bool(found)
        elif root_of(kind) == "numpy":
            result = bool(found.all()) and found.size > 0
        else:
            return None
        return result != (operator in ("NotEq", "NotIn"))

    def choose(self, asked):
        """What to ask first, in the frame of the test, and what behind it. An honest method may raise where it meets a strange kind, so in
        the frame of the test it meets the kinds that the test compares it with."""
        operator, left, right = asked.operator, asked.left, asked.right
        if operator in ("Eq", "NotEq"):
            pairs = []
            self.walk(left, right, pairs, 0)
            if pairs:
                asked.liar, asked.given, at_left = pairs[0]
                other = unlike(asked.given, self.nothing)
                if other is not self.nothing and (operator == "Eq" or has_own(type(asked.liar), "__ne__")):
                    asked.pair = (asked.liar, other) if at_left else (other, asked.liar)
                asked.others = pairs
        elif operator in ("In", "NotIn"):
            if self.may_lie(right):
                asked.liar, asked.given = right, left
                other = unlike(left, self.nothing)
                if other is not self.nothing:
                    asked.pair = (other, right)
            elif self.may_lie(left) and (type(right) in SEQUENCES or type(right) in SETS or type(right) is dict):
                asked.liar, asked.given = left, right
                asked.pair = (left, [unlike(one, self.nothing) for one in list(right)[:1000] if type(one) in TELLING])
            elif type(right) in SEQUENCES:
                for one in right[:MAX_PARTS]:
                    if self.may_lie(one):
                        asked.liar, asked.given = one, left
                        asked.pair = (unlike(left, self.nothing), [one] if type(left) in TELLING else [])
                        break
        elif self.may_lie(left) or self.may_lie(right):
            at_left = self.may_lie(left)
            asked.liar, asked.given = (left, right) if at_left else (right, left)
            if type(asked.given) in (int, float):
                beyond = type(asked.given)(-(10 ** 15) if (operator in ("Lt", "LtE")) == at_left else 10 ** 15)
                asked.pair = (left, beyond) if at_left else (beyond, right)

    def walk(self, left, right, pairs, depth):
        """Pairs of parts that are compared with one another, of which one may lie."""
        if len(pairs) >= MAX_PAIRS or (type(left) in ATOMS and type(right) in ATOMS):
            return
        if type(left) is type(right) and depth < 4:
            # Records are tuples of a class of their own.
            if issubclass(type(left), (list, tuple, dict)):
                # By their own means they may never end: the tests alter what links their parts.
                named = [dict(dict.items(one)) if isinstance(one, dict) else dict(enumerate(parts_of(one))) for one in (left, right)]
                for name in list(named[0])[:MAX_PARTS]:
                    if name in named[1]:
                        self.walk(named[0][name], named[1][name], pairs, depth + 1)
            if type(left) in SEQUENCES or type(left) is dict:
                return
        if self.may_lie(left):
            pairs.append((left, right, True))
        elif self.may_lie(right):
            pairs.append((right, left, False))
        if type(left) is type(right) and depth < 4 and not isinstance(left, type) and (type(left) in PLAIN_RECORDS or self.may_lie(left)):
            # Two of one kind may be equal by their parts.
            self.walk(attributes_of(left), attributes_of(right), pairs, depth + 1)

    def judge(self, asked, first, found, is_truth):
        operator = asked.operator
        claimed = self.claims(operator, first)
        if claimed is None:
            if not bool(first):
                return
            if not is_truth:
                # Its answer is some object: it counts where that is asserted.
                if bool(found):
                    self.answers[id(found)] = (found, asked.liar)
                return
            claimed = operator not in ("NotEq", "NotIn")
        if operator in ("Lt", "LtE", "Gt", "GtE"):
            if type(asked.given) in (int, float):
                if claimed and abs(asked.given) < 10 ** 12:
                    self.accuse(asked.liar)
            elif (asked.left < asked.right) is True and (asked.left > asked.right) is True:
                self.accuse(asked.liar)
            return
        if operator in ("In", "NotIn"):
            if claimed and asked.liar is asked.right:
                # A range may hold much, but not all.
                claimed = all(unlike(asked.given, self.nothing) in asked.right for _ in range(3)) and (type(asked.given) is str or self.nothing in asked.right)
            if claimed:
                self.accuse(asked.liar)
            return
        if claimed and self.is_telling(asked.given):
            self.accuse(asked.liar)
            return
        for liar, given, _ in asked.others:
            if self.lies(liar):
                self.accuse(liar)
                return
            if not self.is_telling(given):
                continue
            if self.equals(liar, unlike(given, self.nothing)) or (self.equals(liar, given) and all(self.equals(liar, one) for one in self.likes(given))):
                self.accuse(liar)
                return

    def is_telling(self, value):
        """Is a value far from this one another one for every honest kind?"""
        return unlike(value, self.nothing) is not self.nothing or not self.may_lie(value)

    def likes(self, value):
        found = [like(value, self.nothing) for _ in range(3)]
        return found if found[0] is not self.nothing else [self.nothing]

    def equals(self, one, other):
        try:
            return bool(self.claims("Eq", one == other))
        except BaseException:
            return False

    # ---- who says it

    def accuse(self, value):
        if not self.is_of_tests(value):
            self.say(self.paths_of(sys._getframe(1)) if self.paths is None else self.paths)

    def paths_of(self, frame):
        """Files of the tests on the way to a frame, the nearest first."""
        paths = []
        while frame is not None:
            name = frame.f_code.co_filename
            path = self.real.get(name)
            if path is None:
                path = self.real[name] = os.path.realpath(name)
            if path in self.files and path not in paths:
                paths.append(path)
            frame = frame.f_back
        return paths

    def is_of_tests(self, value):
        """A matcher of the tests, or of an installed module that they name."""
        kind = type(value)
        found = self.decides(kind)
        found = getattr(found, "__func__", found)
        if type(found) is not type(unlike):
            return False
        path = os.path.realpath(found.__code__.co_filename)
        if path in self.files:
            return name_of(kind) in self.files[path]
        root = root_of(kind)
        if root in ("mock", "unittest") or root not in self.roots:
            return False
        place = getattr(sys.modules.get(root), "__file__", None)
        return type(place) is str and not is_within(place, self.repository) and is_within(path, os.path.dirname(os.path.realpath(place)))

    # ---- trees

    def in_tree(self, tree, path, name, helper):
        """Puts the questions into a module of the tests. `name` is that of this object in it, imported from `helper`."""
        self.files[os.path.realpath(path)] = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        for node in ast.walk(tree):
            words = [getattr(node, name, None) for name in ("id", "attr", "arg", "module")] + [one.name for one in getattr(node, "names", []) if isinstance(one, ast.alias)]
            if any(NOT_A_NUMBER.search(word) for word in words + [getattr(node, "name", None), text_of(node)] if type(word) is str):
                self.unordered.add(os.path.realpath(path))
            if any("mock" in word.lower() for word in words if type(word) is str):
                self.mocking.add(os.path.realpath(path) if "test" in os.path.basename(path).replace("conftest", "") else None)
            if isinstance(node, ast.Import):
                self.roots.update(alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                self.roots.add(node.module.split(".")[0])
        at = 0
        for node in tree.body:
            is_text = at == 0 and isinstance(node, ast.Expr) and type(text_of(node.value)) is str
            if not is_text and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
                break
            at += 1
        if at == len(tree.body):
            return tree
        imported = ast.ImportFrom(module=helper, names=[ast.alias(name="questions", asname=name)], level=0)
        ast.copy_location(imported, tree.body[at])
        for alias in imported.names:
            # From Python 3.10 on it has a place too.
            ast.copy_location(alias, tree.body[at])
        Asking(name, self).visit(tree)
        tree.body.insert(at, imported)
        return ast.fix_missing_locations(tree)


def parts_of(value):
    """Of a collection the first, also where a class has its own way to give them."""
    kind = type(value)
    name = name_of(kind)
    if name == "ndarray" and value.dtype.kind == "O":
        return value.ravel()[:MAX_PARTS].tolist()
    if name in ("Series", "Index", "DataFrame") and root_of(kind) == "pandas":
        return parts_of(value.values)
    for base in (tuple, list, set, frozenset, collections.deque):
        if issubclass(kind, base):
            return list(itertools.islice(base.__iter__(value), MAX_PARTS))
    if issubclass(kind, dict):
        return [part for pair in itertools.islice(dict.items(value), MAX_PARTS) for part in pair]
    return list(attributes_of(value).values())[:MAX_PARTS] if kind in PLAIN_RECORDS else []


def attributes_of(value):
    if type(value) is slice:
        return {"start": value.start, "stop": value.stop, "step": value.step}
    found = dict(getattr(value, "__dict__", None) or {})
    for cls in mro_of(type(value)):
        names = dict_of(cls).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if name in ("__dict__", "__weakref__"):
                continue
            if name.startswith("__") and not name.endswith("__"):
                # As Python calls it outside of the class.
                name = "_%s%s" % (name_of(cls).lstrip("_"), name)
            if hasattr(value, name):
                found[name] = getattr(value, name)
    return found


def is_reckoned(node):
    """By the test itself, of values that may have been altered."""
    return not any(isinstance(one, ast.Call) for one in ast.walk(node)) and any(isinstance(one, (ast.BinOp, ast.JoinedStr)) for one in ast.walk(node))


def asserts_by_itself(name):
    return name.startswith("assert")


def is_marked(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name) and node.value.func.id.startswith("_")


def is_made_of_atoms(value, depth):
    kind = type(value)
    if kind in (list, tuple, set, frozenset, dict):
        parts = list(value) + (list(value.values()) if kind is dict else [])
        return depth < 5 and len(parts) < 1000 and all(is_made_of_atoms(one, depth + 1) for one in parts)
    return kind in ATOMS


def text_of(node):
    """Of a literal; Pythons before 3.8 have another node for it, and later ones warn of its field."""
    return node.value if isinstance(node, ast.Constant) else getattr(node, "s", None)


def names_in(decorator):
    """Of what a decorator is, without what it is given."""
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    while isinstance(node, ast.Attribute):
        yield node.attr
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id


def is_mock(kind):
    return any(name_of(cls) == "NonCallableMock" for cls in mro_of(kind))


def strange_name():
    """That no object has."""
    return "".join(random.SystemRandom().choice("bcdfghjkl") for _ in range(12))


def has_own(kind, name):
    """Without one, two differ where the answer to their equality is not true, whatever that answer means."""
    return any(name in dict_of(cls) for cls in mro_of(kind) if flags_of(cls) & HEAP_TYPE)


def is_unset(method):
    """A mock has every method, and asking one that is not used would be a call."""
    return any(type(method) is getattr(sys.modules.get(name), "MagicProxy", None) for name in ("unittest.mock", "mock.mock", "mock"))


def is_within(path, folder):
    path = os.path.realpath(path)
    return path == folder or path.startswith(folder + os.sep)


def is_made_of_literals(node):
    """A call of what is named like a class, with literals alone."""
    if not isinstance(node, ast.Call) or not (node.args or node.keywords):
        return False
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    if not CLASS_NAME.match(name) or not all(isinstance(one, (ast.Name, ast.Attribute, ast.expr_context)) for one in ast.walk(node.func)):
        return False
    try:
        for one in node.args + [one.value for one in node.keywords]:
            ast.literal_eval(one)
    except (ValueError, TypeError, SyntaxError):
        return False
    return all(one.arg is not None for one in node.keywords)


class Ending(ast.NodeTransformer):
    """Puts a question into each place where a function ends by itself."""

    def __init__(self, ask):
        self.ask = ask

    def visit_Return(self, node):
        node.value = self.ask(node, "ending", *([] if node.value is None else [node.value]))
        return node

    def pass_by(self, node):
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = pass_by


def own_nodes(function):
    """Nodes of a function without those of functions and classes inside of it."""
    rest = list(function.body)
    while rest:
        node = rest.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            rest.extend(ast.iter_child_nodes(node))


def is_assertion(node):
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        return name.startswith("assert") or name == "fail"
    return isinstance(node, ast.Assert)


def is_failure(node):
    """One that is not to be reached."""
    given = node.test if isinstance(node, ast.Assert) else node.args[0] if node.args else None
    return given is None or getattr(given, "value", given) in (False, None) or getattr(getattr(node, "func", None), "attr", "") == "fail"


def asserted_in(node):
    """What an assertion wants to be true. A turned one wants the opposite."""
    if isinstance(node, ast.Assert):
        rest = [node.test]
    elif isinstance(node, ast.Call) and is_assertion(node) and getattr(node.func, "attr", "") in ("assertTrue", "assertFalse", "assert_"):
        rest = node.args[:1]
    else:
        rest = []
    while rest:
        test = rest.pop()
        if isinstance(test, ast.BoolOp):
            rest.extend(test.values)
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            rest.append(test.operand)
        else:
            yield test


class Asking(ast.NodeTransformer):
    """Puts the questions of an object of that name into a tree, without a constant: code under test may read those of its caller."""

    def __init__(self, name, questions):
        self.name = name
        self.questions = questions
        self.truths = set()
        # Calls of classes with literals, and members of enumerations, that are compared with something else.
        self.made = set()
        self.members = set()
        # Comparisons that are asserted, and around how many blocks of the test that may catch what is raised.
        self.equalities = {}
        self.caught = 0

    def ask(self, node, method, *given):
        function = ast.Attribute(value=ast.Name(id=self.name, ctx=ast.Load()), attr=method, ctx=ast.Load())
        call = ast.Call(func=function, args=list(given), keywords=[])
        for one in ast.walk(call) if not given else (call, function, function.value):
            ast.copy_location(one, node)
        return call

    def is_true(self, test):
        """The comparisons whose truth decides."""
        if isinstance(test, ast.BoolOp):
            for one in test.values:
                self.is_true(one)
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            self.is_true(test.operand)
        else:
            self.truths.add(id(test))

    def visit_function(self, node):
        parts = list(own_nodes(node))
        asserted = {one.id for part in parts for one in asserted_in(part) if isinstance(one, ast.Name)}
        bound = [(one.targets[0].id, one.value) for one in parts if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)]
        # A turned assertion keeps its value in a name of its own.
        asserted |= {value.id for name, value in bound if name in asserted and isinstance(value, ast.Name)}
        # Before a question is put around them.
        wants_error = any(WANTS_ERROR.search(word) for one in node.decorator_list for word in names_in(one))
        self.generic_visit(node)
        for name, value in bound:
            if name in asserted:
                self.ask_owner(value)
        is_watched = node.name.startswith("test") or any(is_assertion(one) for one in parts)
        if not is_watched or any(isinstance(one, (ast.Yield, ast.YieldFrom)) for one in parts):
            return node
        if wants_error:
            return node
        begins = 1 if isinstance(node.body[0], ast.Expr) and type(text_of(node.body[0].value)) is str else 0
        ending = Ending(self.ask)
        body = [ending.visit(one) for one in node.body[begins:]] + [ast.Expr(value=self.ask(node.body[-1], "ending"))]
        if isinstance(node, ast.AsyncFunctionDef):
            told = [ast.Expr(value=self.ask(node.body[-1], "raising")), ast.Raise(exc=None, cause=None)]
            body = [ast.Try(body=body, handlers=[ast.ExceptHandler(type=None, name=None, body=told)], orelse=[], finalbody=[])]
        node.body[begins:] = [ast.Expr(value=self.ask(node.body[0], "began"))] + body
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_function

    def ask_owner(self, test):
        """Puts a question to what is asserted to have something that is true."""
        is_call = isinstance(test, ast.Call)
        place = test.func if is_call else test
        if isinstance(place, ast.Attribute):
            place.value = self.ask(place.value, "caller" if is_call else "owner", place.value)
        elif isinstance(test, ast.Subscript):
            test.value = self.ask(test.value, "holder", test.value)
        elif is_call and isinstance(place, ast.Name) and place.id == "hasattr" and len(test.args) == 2 and not isinstance(test.args[0], ast.Starred):
            test.args[0] = self.ask(test.args[0], "owner", test.args[0])

    def visit_With(self, node):
        """What is raised in the block may be swallowed where it ends. Not by what says so, and not where nothing is asserted."""
        words = [word for one in node.items for word in names_in(one.context_expr)]
        is_asked = any(is_assertion(one) and not is_failure(one) for part in node.body for one in ast.walk(part))
        wants_error = any(WANTS_ERROR.search(word) for word in words)
        catches = wants_error and not all("subtest" in word.lower() for word in words if WANTS_ERROR.search(word))
        self.caught += catches
        self.generic_visit(node)
        self.caught -= catches
        if not is_asked or wants_error:
            return node
        node.body.append(ast.Expr(value=self.ask(node, "leaving")))
        return [ast.Expr(value=self.ask(node, "entering")), node, ast.Expr(value=self.ask(node, "behind"))]

    visit_AsyncWith = visit_With

    def visit_Try(self, node):
        # The rehearsal puts each assertion into one of its own, so that the test goes on.
        is_own = len(node.orelse) == 1 and is_marked(node.orelse[0]) and len(node.handlers) == 1 and (is_marked(node.handlers[0].body[0]) or isinstance(node.handlers[0].body[0], ast.Pass))
        catches = bool(node.handlers) and not is_own
        self.caught += catches
        self.generic_visit(node)
        self.caught -= catches
        return node

    def visit_with_test(self, node):
        self.is_true(node.test)
        return self.generic_visit(node)

    visit_If = visit_While = visit_IfExp = visit_with_test

    def visit_comprehension(self, node):
        for one in node.ifs:
            self.is_true(one)
        return self.generic_visit(node)

    def visit_Assert(self, node):
        self.is_true(node.test)
        for one in node.test.values if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And) else [node.test]:
            if isinstance(one, ast.Compare) and len(one.ops) == 1 and isinstance(one.ops[0], (ast.Eq, ast.In)):
                second = "second_side" if isinstance(one.ops[0], ast.Eq) else "place_side"
                self.equalities[id(one)] = self.ways_to_weigh(one.left, one.comparators[0], second)
        is_answer = isinstance(node.test, (ast.Call, ast.Name))
        asserted = list(asserted_in(node))
        self.generic_visit(node)
        for one in asserted:
            self.ask_owner(one)
        if is_answer:
            node.test = self.ask(node.test, "truth", node.test)
        return node

    def visit_match_case(self, node):
        # Patterns hold no expressions that could be replaced.
        if node.guard is not None:
            node.guard = self.visit(node.guard)
        node.body = [self.visit(one) for one in node.body]
        return node

    def visit_Name(self, node):
        return self.ask(node, "own", node) if node.id == "ANY" and isinstance(node.ctx, ast.Load) else node

    def visit_Attribute(self, node):
        is_member = id(node) in self.members
        self.generic_visit(node)
        if node.attr == "ANY" and isinstance(node.ctx, ast.Load):
            return self.ask(node, "own", node)
        return self.ask(node, "member", node) if is_member else node

    def ways_to_weigh(self, left, right, second):
        if self.caught or is_reckoned(left) or is_reckoned(right):
            return "value", "last_side"
        return "first_side", second

    def is_compared(self, sides, is_equality):
        """The sides of a comparison: one that is made of nothing but literals says what the other must be. There may be one object alone, by
        design."""
        found = [[one for one in ast.walk(side) if is_made_of_literals(one)] for side in sides]
        if is_equality and sum(map(bool, found)) == 1:
            self.made.update(id(one) for one in sum(found, []))
        self.members.update(id(one) for side in sides for one in ast.walk(side) if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Load)
                            and CLASS_NAME.match(getattr(one.value, "attr", getattr(one.value, "id", ""))))

    def asked_how_made(self, node):
        """What it was given is kept here, for the caller's constants are read."""
        given = [ast.literal_eval(one) for one in node.args], {one.arg: ast.literal_eval(one.value) for one in node.keywords}
        name = "made_%d" % len(vars(self.questions))
        setattr(self.questions, name, functools.partial(self.questions.made, *given))
        return name

    def asked_how_near(self, node):
        """None where it is given more than literals."""
        try:
            given = [ast.literal_eval(one) for one in node.args[2:]], {one.arg: ast.literal_eval(one.value) for one in node.keywords}
        except (ValueError, TypeError, SyntaxError):
            return None
        name = "near_%d" % len(vars(self.questions))
        setattr(self.questions, name, functools.partial(self.questions.near_side, *given))
        return name

    def visit_Call(self, node):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""
        given = [isinstance(one, (ast.Attribute, ast.Subscript, ast.Name)) for one in node.args]
        asserted = name in ("assertTrue", "assertFalse", "assert_", "bool") and bool(node.args)
        owned = list(asserted_in(node))
        is_near = name in ALMOST_CALLS | CLOSE_CALLS and asserts_by_itself(name)
        second = "second_side" if name in EQUAL_CALLS else "place_side" if name in FINDING_CALLS else self.asked_how_near(node) if is_near else None
        check = [copy.deepcopy(node.func)] if is_near else []
        ways = self.ways_to_weigh(node.args[0], node.args[1], second) if second is not None and len(node.args) > 1 else None
        how_made = (self.asked_how_made(node), copy.deepcopy(node.func)) if id(node) in self.made else None
        if SAMENESS.search(name):
            self.is_compared(node.args[:2], name != "assertIs")
        if asserted:
            self.is_true(node.args[0])
        self.generic_visit(node)
        for one in owned:
            self.ask_owner(one)
        if name in FRAMED:
            return node
        node.args = [self.ask(one, "value", one) if is_given else one for one, is_given in zip(node.args, given)]
        if ways is not None and not any(isinstance(one, ast.Starred) for one in node.args[:2]):
            node.args[:2] = [self.ask(one, way, one, *(check if way not in ("value", "first_side", "last_side") else ())) for one, way in zip(node.args, ways)]
        if asserted and not isinstance(node.args[0], ast.Starred):
            node.args[0] = self.ask(node.args[0], "truth", node.args[0])
        if isinstance(node.func, ast.Attribute) and not isinstance(node.func.value, ast.Call):
            if name in LOOKING:
                node.func.value = self.ask(node.func.value, "value", node.func.value)
            elif name in SAYING:
                node.func.value = self.ask(node.func.value, "saying_" + name, node.func.value)
            elif name.startswith("assert_"):
                node.func.value = self.ask(node.func.value, "called", node.func.value)
        return self.ask(node, "value", node) if how_made is None else self.ask(node, how_made[0], how_made[1], node)

    def visit_Await(self, node):
        self.generic_visit(node)
        return self.ask(node, "value", node)

    def visit_Compare(self, node):
        is_truth, ways = id(node) in self.truths, self.equalities.get(id(node))
        if all(isinstance(one, (ast.Eq, ast.Is)) for one in node.ops):
            self.is_compared([node.left] + node.comparators, all(isinstance(one, ast.Eq) for one in node.ops))
        self.generic_visit(node)
        if not all(type(one).__name__ in ASKED for one in node.ops):
            return node
        if ways is not None:
            node.left, node.comparators = self.ask(node.left, ways[0], node.left), [self.ask(one, ways[1], one) for one in node.comparators]
        parts = []
        left = node.left
        for operator, right in zip(node.ops, node.comparators):
            kept = self.ask(node, "keep_" + type(operator).__name__, left, right)
            first = ast.Compare(left=self.ask(node, "first_left"), ops=[operator], comparators=[self.ask(node, "first_right")])
            real = ast.Compare(left=self.ask(node, "left"), ops=[operator], comparators=[self.ask(node, "right")])
            for one in (first, real):
                ast.copy_location(one, node)
            parts.append(self.ask(node, "end_of_truth" if is_truth else "end", kept, first, real))
            left = self.ask(node, "held")
        return parts[0] if len(parts) == 1 else ast.copy_location(ast.BoolOp(op=ast.And(), values=parts), node)
