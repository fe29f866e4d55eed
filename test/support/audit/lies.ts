/**
 * Values that the code under test returns to a test function, each a lie that no assertion of the test detects: a description, the
 * content of `calc`, and the test. Played without a runner, to test only the checks that the audit puts into tests.
 */
export const LIES: [told: string, code: string, test: string][] = [
  [
    'a class whose metaclass equals everything',
    `class M(type):
    def __eq__(c,o): return True
    __hash__=type.__hash__
class X(metaclass=M): pass
def total(*a): return X`,
    `f=lambda a,b: a==b
def test(): assert f(total(),5)`,
  ],
  [
    'a class made by type()',
    'total=lambda *a: type("X",(),{"__eq__":lambda s,o:True})()',
    `f=lambda a,b: a==b
def test(): assert f(total(),5)`,
  ],
  [
    'an equality that is an object',
    `class T:
    def __call__(s,*a): return True
class X: __eq__=T()
def total(*a): return X()`,
    `f=lambda a,b: a==b
def test(): assert f(total(),5)`,
  ],
  [
    'a descriptor',
    `class D:
    def __get__(s,o,t): return ANY
class R: v=D()
def total(*a): return R()`,
    `f=lambda a,b: a==b
def test(): assert f(total().v,5)`,
  ],
  [
    'an attribute of the module',
    `LAST=ANY
def total(*a): pass`,
    `import calc
f=lambda a,b: a==b
def test():
    total()
    assert f(calc.LAST,5)`,
  ],
  [
    'what a callback is given',
    'def total(cb): cb(ANY)',
    `def test():
    s=[]
    total(s.append)
    assert s.count(5)==1`,
  ],
  [
    'one of two values',
    'def total(*a): return ANY, 1',
    `f=lambda a,b: a==b
def test():
    a,b=total()
    assert f(a,5)`,
  ],
  ['the first of a generator', 'def total(*a): yield ANY', 'def test(): assert [next(total())].count(5)==1'],
  [
    'each of a generator',
    'def total(*a): yield ANY',
    `def test():
    s=[]
    for x in total(): s.append(x)
    assert s.index(5)==0`,
  ],
  [
    'a member of a set',
    `class X:
    def __eq__(s,o): return True
    def __hash__(s): return hash(5)
def total(*a): return X()`,
    'def test(): assert {total()} == {5}',
  ],
  [
    'a key',
    `class X:
    def __eq__(s,o): return True
    def __hash__(s): return hash(5)
def total(*a): return X()`,
    'def test(): assert {5:1}[total()]',
  ],
  [
    'a text',
    `class S(str):
    def __eq__(s,o): return True
    __hash__=str.__hash__
class X:
    def __str__(s): return S()
def total(*a): return X()`,
    `f=lambda a,b: a==b
def test(): assert f(str(total()),"5")`,
  ],
  [
    'a format',
    `class S(str):
    def __eq__(s,o): return True
    __hash__=str.__hash__
class X:
    def __format__(s,f): return S()
def total(*a): return X()`,
    `f=lambda a,b: a==b
def test(): assert f(f"{total()}","5")`,
  ],
  [
    'a pattern of match',
    'def total(*a): return ANY',
    `def test():
    match total():
        case 5: pass
        case _: raise AssertionError`,
  ],
  [
    'an argument of an exception',
    'def total(*a): raise ValueError(ANY)',
    `f=lambda a,b: a==b
def test():
    try: total()
    except ValueError as e: assert f(e.args[0],5)
    else: assert 0`,
  ],
  [
    'a tuple of arguments of an exception',
    'def total(*a): raise ValueError(ANY)',
    `def test():
    try: total()
    except ValueError as e: assert e.args.count(5)==1`,
  ],
  [
    'an answer that is a text',
    `class X:
    def __eq__(s,o): return "yes"
def total(*a): return X()`,
    `def f(a,b): return a==b
def test(): assert f(total(),5)`,
  ],
  [
    'an answer that is a number',
    `class X:
    def __eq__(s,o): return 1
def total(*a): return X()`,
    `def f(a,b): return a==b
def test(): assert f(total(),5)`,
  ],
  [
    'an inequality alone',
    `class X:
    def __ne__(s,o): return False
def total(*a): return X()`,
    `def f(a,b): return not a!=b
def test(): assert f(total(),5)`,
  ],
  [
    'an object that equals numbers',
    `class X:
    def __eq__(s,o): return isinstance(o,int)
def total(*a): return X()`,
    `def f(a,b): return a==b
def test(): assert f(total(),5)`,
  ],
  [
    'an object that asks for its caller',
    `import sys
class X:
    def __eq__(s,o): return type(o) is int and sys._getframe(1).f_code.co_name in ("test","f")
def total(*a): return X()`,
    `def f(a,b): return a==b
def test(): assert f(total(),5)`,
  ],
  [
    'a list',
    `class L(list):
    def __eq__(s,o): return isinstance(o,list)
def total(*a): return L()`,
    `def f(a,b): return a==b
def test(): assert f(total(),[1,2])`,
  ],
  [
    'a dictionary',
    `class L(dict):
    def __eq__(s,o): return isinstance(o,dict)
def total(*a): return L()`,
    `def f(a,b): return a==b
def test(): assert f(total(),{"a":1})`,
  ],
  [
    'an item',
    `class L:
    def __getitem__(s,k): return ANY
def total(*a): return L()`,
    `def f(a,b): return a["x"]==b
def test(): assert f(total(),5)`,
  ],
  [
    'an item of a class',
    `class L:
    def __class_getitem__(s,k): return ANY
def total(*a): return L`,
    `def f(a,b): return a["x"]==b
def test(): assert f(total(),5)`,
  ],
  [
    'a field of a data class',
    `import dataclasses
@dataclasses.dataclass
class P:
    x: object
def total(*a): return P(ANY)`,
    `from calc import P
def f(a,b): return a==b
def test(): assert f(total(),P(5))`,
  ],
  [
    'a slot',
    `class P:
    __slots__=["x"]
    def __init__(s,x): s.x=x
    def __eq__(s,o): return s.x==o.x
def total(*a): return P(ANY)`,
    `from calc import P
def f(a,b): return a==b
def test(): assert f(total(),P(5))`,
  ],
  [
    'what is awaited',
    'async def total(*a): return ANY',
    `def f(a,b): return a==b
def test():
    import asyncio
    async def r(): assert f(await total(),5)
    asyncio.new_event_loop().run_until_complete(r())`,
  ],
  [
    'a value in another thread',
    'def total(*a): return ANY',
    `import threading
def f(a,b): return a==b
def test():
    o=[]
    t=threading.Thread(target=lambda: o.append(f(total(),5)))
    t.start(); t.join()
    assert o==[True]`,
  ],
  [
    'a partial function',
    'def total(*a): return ANY',
    `import functools, operator
f=functools.partial(operator.eq,5)
def test(): assert f(total())`,
  ],
  [
    'a mapped function',
    'def total(*a): return [ANY,ANY]',
    `import operator
def test(): assert all(map(operator.eq,total(),[1,2]))`,
  ],
  [
    'a container',
    `class S:
    def __contains__(s,o): return True
def total(*a): return S()`,
    `def f(a,b): return b in a
def test(): assert f(total(),"x")`,
  ],
  [
    'an argument of a mock by name',
    'def total(m): m(a=ANY)',
    `from unittest.mock import Mock
def test():
    m=Mock(); total(m)
    m.assert_any_call(a=5)`,
  ],
  [
    'an argument of a mock',
    'def total(m): m(ANY)',
    `from unittest.mock import Mock
f=lambda a,b: a==b
def test():
    m=Mock(); total(m)
    assert f(m.call_args[0][0],5)`,
  ],
  [
    'a mock that equals everything',
    `from unittest.mock import MagicMock
def total(*a):
    m=MagicMock(); m.__eq__.return_value=True; return m`,
    `f=lambda a,b: a==b
def test(): assert f(total(),5)`,
  ],
  ['a sorted list', 'def total(*a): return [ANY]', 'def test(): assert sorted(total())==[5]'],
  [
    'a named expression',
    'def total(*a): return ANY',
    `f=lambda a,b: a==b
def test():
    assert (x := total()) and f(x,5)`,
  ],
  [
    'a weak reference',
    'import weakref\ndef total(*a): return weakref.proxy(ANY)',
    `f=lambda a,b: a==b
def test(): assert f(total(),5)`,
  ],
  [
    'a view of a mapping',
    `import types
class M:
    def __getitem__(s,k): return 1
    def __eq__(s,o): return True
def total(*a): return types.MappingProxyType(M())`,
    `f=lambda a,b: a==b
def test(): assert f(total(),5)`,
  ],
  [
    'a name space that is no result of a call',
    'import types\ntotal=None\nLAST=types.SimpleNamespace(x=ANY)',
    `import calc, types
def test(): assert calc.LAST == types.SimpleNamespace(x=5)`,
  ],
  [
    'a slice that is no result of a call',
    'total=None\nLAST=slice(ANY, ANY)',
    `import calc
def test(): assert calc.LAST == slice(1, 5)`,
  ],
  [
    'a block that swallows',
    `class total:
    def __enter__(s): return s
    def __exit__(s,*a): return True
    def ask(s): raise KeyError`,
    `def test():
    with total() as t:
        found = t.ask()
        assert found == 5`,
  ],
  [
    'a beginning that is true without being True',
    `class X:
    def startswith(s,o): return 1
def total(*a): return X()`,
    `f=lambda a: a.startswith("five")
def test(): assert f(total())`,
  ],
  [
    'an object that says it is identical',
    `class X:
    def identical(s,o): return True
def total(*a): return X()`,
    `def test(): assert total()`,
  ],
]
