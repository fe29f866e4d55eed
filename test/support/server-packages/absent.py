"""Stands in for what a serving engine imports and this environment lacks: torch, CUDA kernels, model code.

Tests need only the classes that describe HTTP. Every other import of their modules becomes an object that accepts every use,
so a test must never assert on one: `assert_real` says whether an object came from the installed package.
"""

from __future__ import annotations

import abc
import importlib.abc
import importlib.machinery
import importlib.metadata
import sys
import types
from collections.abc import Sequence
from typing import Any

# pydantic imports it to find out whether it is there.
NEVER = {"email_validator"}
# A version for packages that are asked for theirs: new enough for every comparison.
VERSION = "2.13.0"


class _AgreesToAll(abc.ABCMeta):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") and name != "__class_validators__":
            raise AttributeError(name)
        return cls

    def __or__(cls, other: Any) -> Any:
        return cls

    def __ror__(cls, other: Any) -> Any:
        return other

    def __getitem__(cls, key: Any) -> Any:
        return cls

    def __iter__(cls) -> Any:
        return iter(())

    def __bool__(cls) -> bool:
        return False

    def __lt__(cls, other: Any) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return _undecorated(args, kwargs) or super().__call__()


def _undecorated(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A decorator gives back what it decorates."""
    if len(args) == 1 and not kwargs and isinstance(args[0], types.FunctionType | type):
        return args[0]
    return None


class Absent(metaclass=_AgreesToAll):
    def __init_subclass__(cls, **kwargs: Any) -> None:
        pass

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.any_schema()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _undecorated(args, kwargs) or Absent()

    def __iter__(self) -> Any:
        return iter(())

    def __bool__(self) -> bool:
        return False


class AbsentModule(types.ModuleType):
    __path__: Sequence[str] = []
    __version__ = VERSION

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        thing = type(name, (Absent,), {})
        # One object for all importers.
        setattr(self, name, thing)
        return thing


class Stand(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers imports of modules below `cut`, and of packages that are not installed."""

    def __init__(self, cut: Sequence[str]) -> None:
        self.cut = cut

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        top = name.partition(".")[0]
        if top in NEVER or top in sys.stdlib_module_names:
            return None
        if not any(name == part or name.startswith(f"{part}.") for part in self.cut):
            parent = name.rpartition(".")[0]
            if parent and not isinstance(sys.modules.get(parent), AbsentModule):
                return None
            if not parent and importlib.machinery.PathFinder.find_spec(name) is not None:
                return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> AbsentModule:
        return AbsentModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def stand_in(cut: Sequence[str]) -> None:
    """`cut` names modules that are installed and yet replaced: they run GPU code when imported."""
    sys.meta_path.insert(0, Stand(cut))
    known = importlib.metadata.version

    def version(name: str) -> str:
        try:
            return known(name)
        except importlib.metadata.PackageNotFoundError:
            return VERSION

    importlib.metadata.version = version


def assert_real(*things: Any) -> None:
    for thing in things:
        assert not isinstance(thing, _AgreesToAll), f"{thing!r} is not from the package"
