"""Heavy imports run without garbage collection."""

from __future__ import annotations

import gc

import pytest

from longhaul_trainer.imports import heavy_imports


def test_garbage_collection_is_off_during_heavy_imports_and_modules_are_frozen() -> None:
    frozen = gc.get_freeze_count()
    try:
        with heavy_imports():
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count() > frozen
    finally:
        gc.unfreeze()


def test_a_missing_module_turns_garbage_collection_on_again() -> None:
    with pytest.raises(ModuleNotFoundError), heavy_imports():
        import longhaul_trainer.no_such_module  # noqa: F401  # pyright: ignore[reportMissingImports]
    gc.unfreeze()
    assert gc.isenabled()
