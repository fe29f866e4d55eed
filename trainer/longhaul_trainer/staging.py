"""Directories that appear complete or not at all."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from longhaul_trainer.failures import OUTPUT_UNWRITABLE, JobError


@contextmanager
def staging_beside(target: Path, *, work: str) -> Iterator[Path]:
    """Yields an empty hidden directory beside the target, which the caller renames to it. `work`, `export` or `import`, is part of its name.

    Files left by a killed writer are removed first. On failure the directory is removed: otherwise it would keep a full disk full.
    Raises JobError 73 if another process writes the same target.
    """
    path = target.with_name(f".{target.name}.{work}")
    path.mkdir(exist_ok=True)
    held = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(held, target, work)
        for entry in path.iterdir():
            entry.unlink()
        try:
            yield path
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise
    finally:
        os.close(held)


def _lock(held: int, target: Path, work: str) -> None:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise JobError(OUTPUT_UNWRITABLE, f"Expected to write {target} alone, another {work} is at it") from error
