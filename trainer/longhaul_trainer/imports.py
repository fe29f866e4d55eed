"""Importing torch and transformers, for less."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def heavy_imports() -> Iterator[None]:
    """Collects no garbage inside. Modules are never garbage, and looking through millions of their objects takes a sixth of the start of
    a job; afterwards they are set apart for good."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
