"""Commit protocol of checkpoints, exports and proximal log-probabilities: staging → manifest → rename → marker.

Wherever an attempt is killed, the next one finds nothing, a directory that it can verify and finish, or a torn one that it moves aside.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from longhaul_trainer.directory import (
    COMMITTED,
    Sealed,
    TornDirectory,
    check_marker,
    fsync_path,
    mark_committed,
    open_sealed,
    read_manifest,
    verify_files,
    write_manifest,
)
from longhaul_trainer.failures import OUTPUT_UNWRITABLE, JobError
from longhaul_trainer.step.failpoints import hit

# Facts about this attempt and machine. The manifest does not list the file, so that equal jobs have equal manifests.
ATTEMPT_FILE = "attempt.json"


def adopt(final: Path, *, key: str, hashes: bool = True) -> Sealed | None:
    """The committed directory of this job, or None. Finishes a complete directory whose marker is missing; moves a torn one aside.

    Raises JobError 73 if another job's directory has this name.
    """
    if not final.is_dir():
        return None
    try:
        manifest, digest = read_manifest(final)
        is_marked = (final / COMMITTED).is_file()
        if is_marked:
            # Before the key: the key of a damaged manifest says nothing about whose directory this is.
            check_marker(final, digest)
        if manifest.get("key") != key:
            raise JobError(
                OUTPUT_UNWRITABLE, f"Expected {final} to be free or of job {key}, found {manifest.get('key')}"
            )
        if not is_marked:
            verify_files(final, manifest, hashes=True)
            mark_committed(final, digest)
        return open_sealed(final, hashes=hashes)
    except TornDirectory:
        set_aside(final)
        return None


def set_aside(torn: Path) -> None:
    torn.rename(torn.with_name(f".torn-{torn.name}-{time.time_ns()}"))


def commit(
    final: Path,
    *,
    kind: str,
    fence: int,
    facts: dict[str, Any],
    write: Callable[[Path], None],
    check_fence: Callable[[], None],
    known: Mapping[str, str] | None = None,
) -> Sealed:
    """Writes a directory through `write(staging)` and publishes it once under its final name.

    `facts` contains the job's `key`; `known`: hashes by file name that are already computed. The first of two racing attempts wins;
    with equal keys both outputs are right. Raises JobError 73, and 76 if a newer attempt exists.
    """
    if (found := adopt(final, key=facts["key"])) is not None:
        return found
    final.parent.mkdir(parents=True, exist_ok=True)
    _clear_stagings(final, fence)
    staging = final.with_name(f".staging-{fence}-{final.name}")
    try:
        staging.mkdir()
        write(staging)
        hit(f"{kind}.staged")
        digest = write_manifest(staging, kind=kind, facts=facts, unlisted=(ATTEMPT_FILE,), known=known)
        hit(f"{kind}.sealed")
        check_fence()
        os.rename(staging, final)
    except Exception as error:
        # On a full disk a partial directory would keep it full.
        shutil.rmtree(staging, ignore_errors=True)
        if isinstance(error, OSError) and final.is_dir():
            return commit_lost(final, key=facts["key"])
        raise
    fsync_path(final.parent)
    hit(f"{kind}.renamed")
    mark_committed(final, digest)
    hit(f"{kind}.committed")
    return open_sealed(final, hashes=False)


def _clear_stagings(final: Path, fence: int) -> None:
    """Removes staging directories of this fence and of older ones. A fenced attempt that still writes there fails, as intended."""
    for path in final.parent.glob(f".staging-*-{final.name}"):
        number = path.name.removeprefix(".staging-").partition("-")[0]
        if number.isdigit() and int(number) <= fence:
            shutil.rmtree(path, ignore_errors=True)


def commit_lost(final: Path, *, key: str) -> Sealed:
    found = adopt(final, key=key)
    if found is None:
        raise JobError(OUTPUT_UNWRITABLE, f"Expected the winner's output in {final}, found a torn directory")
    return found
