"""Faster import of torch and transformers."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def heavy_imports() -> Iterator[None]:
    """Disables garbage collection inside and freezes the imported objects afterwards, so that collections skip them.

    Modules are never garbage, and scanning their millions of objects takes a sixth of a job's start-up.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
