"""Strict reading of JSON objects: every field known, typed and bounded, or the job ends with a named reason."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

from longhaul_trainer.failures import JobError

MISSING: Any = object()


class Fields:
    """One JSON object being read. `finish()` refuses fields that no reader took: an ignored switch would be a silent no-op."""

    def __init__(self, value: Any, *, where: str, code: int) -> None:
        self.where = where
        self._code = code
        if not isinstance(value, dict):
            self.refuse(f"Expected {where} to be an object, got {value!r:.80}")
        self._left: dict[str, Any] = dict(value)

    def refuse(self, message: str) -> NoReturn:
        raise JobError(self._code, message)

    def has(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str, default: Any = MISSING) -> Any:
        if name in self._left:
            return self._left.pop(name)
        if default is MISSING:
            self.refuse(f"Expected field `{name}` in {self.where}")
        return default

    def text(self, name: str, default: Any = MISSING) -> str:
        value = self.take(name, default)
        if value is not default and not isinstance(value, str):
            self._mistyped(name, "a string", value)
        return value

    def whole(self, name: str, default: Any = MISSING, *, least: int = 0) -> int:
        value = self.take(name, default)
        if value is not default and (type(value) is not int or value < least):
            self._mistyped(name, f"an integer of at least {least}", value)
        return value

    def number(self, name: str, default: Any = MISSING, *, least: float = 0.0, open_end: bool = False) -> float:
        value = self.take(name, default)
        if value is default:
            return value
        fits = type(value) in (int, float) and math.isfinite(value) and (value > least if open_end else value >= least)
        if not fits:
            self._mistyped(name, f"a number {'above' if open_end else 'of at least'} {least:g}", value)
        return float(value)

    def number_or_none(self, name: str, *, above: float) -> float | None:
        """A number, or the word "none" for a switch that is off."""
        if self._left.get(name) == "none":
            self._left.pop(name)
            return None
        return self.number(name, least=above, open_end=True)

    def pair(self, name: str) -> tuple[float, float]:
        value = self.take(name)
        if not (isinstance(value, list) and len(value) == 2 and all(type(item) in (int, float) for item in value)):
            self._mistyped(name, "a list of two numbers", value)
        return float(value[0]), float(value[1])

    def flag(self, name: str, default: Any = MISSING) -> bool:
        value = self.take(name, default)
        if not isinstance(value, bool):
            self._mistyped(name, "true or false", value)
        return value

    def choice(self, name: str, allowed: Sequence[Any], default: Any = MISSING) -> Any:
        value = self.take(name, default)
        if not any(value == item and type(value) is type(item) for item in allowed):
            self._mistyped(name, "one of " + " / ".join(str(item) for item in allowed), value)
        return value

    def inner(self, name: str, default: Any = MISSING) -> Fields:
        return Fields(self.take(name, default), where=f"{self.where}.{name}", code=self._code)

    def finish(self) -> None:
        if self._left:
            self.refuse(f"Unknown or unused field(s) in {self.where}: {', '.join(sorted(self._left))}")

    def _mistyped(self, name: str, expected: str, value: Any) -> NoReturn:
        self.refuse(f"Expected `{name}` in {self.where} to be {expected}, got {value!r:.80}")
