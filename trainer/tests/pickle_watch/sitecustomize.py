"""Records every pickle that a process writes or reads, with its stack. Python imports this module at start if it is on the path."""

import os
import pickle
import traceback
from pathlib import Path
from typing import Any


def _note(what: str) -> None:
    stack = "".join(traceback.format_stack(limit=8)[:-2])
    Path(os.environ["PICKLE_NOTES"], f"{os.getpid()}-{what}.txt").write_text(stack)


class _Pickler(pickle.Pickler):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        _note("write")
        super().__init__(*arguments, **options)


class _Unpickler(pickle.Unpickler):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        _note("read")
        super().__init__(*arguments, **options)


def _watched(call: Any, what: str) -> Any:
    def noted(*arguments: Any, **options: Any) -> Any:
        _note(what)
        return call(*arguments, **options)

    return noted


if "PICKLE_NOTES" in os.environ:
    for name in ("dump", "dumps"):
        setattr(pickle, name, _watched(getattr(pickle, name), "write"))
    for name in ("load", "loads"):
        setattr(pickle, name, _watched(getattr(pickle, name), "read"))
    pickle.Pickler, pickle.Unpickler = _Pickler, _Unpickler
