"""Heavy imports run without garbage collection."""

from __future__ import annotations

import gc

import pytest

from longhaul_trainer.imports import heavy_imports


def test_nothing_is_collected_inside_and_the_modules_are_set_apart() -> None:
    frozen = gc.get_freeze_count()
    try:
        with heavy_imports():
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count() > frozen
    finally:
        gc.unfreeze()


def test_a_module_that_is_missing_leaves_the_collection_on() -> None:
    with pytest.raises(ModuleNotFoundError), heavy_imports():
        import longhaul_trainer.no_such_module  # noqa: F401  # pyright: ignore[reportMissingImports]
    gc.unfreeze()
    assert gc.isenabled()
