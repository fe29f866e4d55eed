"""Commit protocol of checkpoints, exports and proximal logprobs: staging → manifest → rename → marker.

Cut anywhere, the next attempt finds either nothing, a directory that it can verify and finish, or a partial one that it moves aside.
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
    fsync_path,
    mark_committed,
    open_sealed,
    read_manifest,
    verify_files,
    write_manifest,
)
from longhaul_trainer.failures import OUTPUT_UNWRITABLE, JobError
from longhaul_trainer.step.failpoints import hit

# About this attempt and this machine; outside the manifest, so that equal jobs have equal manifests.
ATTEMPT_FILE = "attempt.json"


def adopt(final: Path, *, key: str, hashes: bool = True) -> Sealed | None:
    """The committed directory of this job, finishing one that was cut before its marker; None when there is none.

    Raises JobError 73 when the place is taken by another job.
    """
    if not final.is_dir():
        return None
    try:
        manifest, digest = read_manifest(final)
        if manifest.get("key") != key:
            raise JobError(
                OUTPUT_UNWRITABLE, f"Expected {final} to be free or of job {key}, found {manifest.get('key')}"
            )
        if not (final / COMMITTED).is_file():
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
    """Writes a directory through `write(staging)` and publishes it under its final name, once.

    `facts` holds the job's `key`, `known` hashes by name. The first of two racers wins; with the same key either output is right.
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
        # A partial directory on a full disk would keep it full.
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
    """What this attempt and dead ones before it left. A fenced one that still writes there fails, as it should."""
    for path in final.parent.glob(f".staging-*-{final.name}"):
        number = path.name.removeprefix(".staging-").partition("-")[0]
        if number.isdigit() and int(number) <= fence:
            shutil.rmtree(path, ignore_errors=True)


def commit_lost(final: Path, *, key: str) -> Sealed:
    found = adopt(final, key=key)
    if found is None:
        raise JobError(OUTPUT_UNWRITABLE, f"Expected the winner's output in {final}, found a torn directory")
    return found
