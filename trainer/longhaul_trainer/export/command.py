"""`export`: writes a sealed policy or checkpoint, after checking every hash, as a plain Hugging Face directory, completely or not at all."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from longhaul_trainer.directory import (
    Sealed,
    TornDirectory,
    content_files,
    fsync_path,
    json_bytes,
    open_sealed,
    sha256_file,
)
from longhaul_trainer.failures import CLASSES, INPUT_UNUSABLE, INVALID_SPEC, OK, OUTPUT_UNWRITABLE, JobError, io_code
from longhaul_trainer.staging import staging_beside

SCHEMA = "longhaul.export/1"
# Record of the origin of the files. Engines ignore it.
RECORD = "longhaul.json"
KINDS = ("policy", "checkpoint")
DEFAULT_DTYPE = "bfloat16"


def export(*, source: Path, target: Path, dtype: str | None, expected_sha256: str | None) -> int:
    """Prints the record as JSON. Returns 0; 64 for an option that does not fit; 66 for a source that is torn, not sealed or unreadable; 73 for
    a target that exists or is not writable; 74 for another I/O error."""
    try:
        record = run_export(source=source, target=target, dtype=dtype, expected_sha256=expected_sha256)
    except JobError as error:
        return _refuse(error.code, error.message)
    except Exception as error:
        if (code := io_code(error, [source.absolute()])) is None:
            raise
        return _refuse(code, str(error))
    print(json_bytes(record).decode(), end="")
    return OK


def _refuse(code: int, message: str) -> int:
    print(f"{CLASSES[code]}: {message}", file=sys.stderr)
    return code


def run_export(*, source: Path, target: Path, dtype: str | None, expected_sha256: str | None) -> dict[str, Any]:
    """Returns the record. Raises JobError or OSError and leaves no `target` then."""
    sealed = _open(source.absolute(), expected_sha256)
    target = target.absolute()
    if target.exists() or target.is_symlink():
        raise JobError(OUTPUT_UNWRITABLE, f"Expected {target} to be free: an export never overwrites")
    with staging_beside(target, work="export") as staging:
        facts = _fill(sealed, staging, dtype)
        files = {path.name: sha256_file(path) for path in content_files(staging)}
        record = {"schema": SCHEMA, **facts, "source": _source_of(sealed), "files": files}
        (staging / RECORD).write_bytes(json_bytes(record))
        for path in (*content_files(staging), staging):
            fsync_path(path)
        staging.rename(target)
    fsync_path(target.parent)
    return {**record, "directory": str(target)}


def _open(source: Path, expected_sha256: str | None) -> Sealed:
    try:
        sealed = open_sealed(source, expected_sha256=expected_sha256)
    except TornDirectory as error:
        raise JobError(INPUT_UNUSABLE, f"{error}. Only a whole policy or checkpoint can be exported") from error
    kind = sealed.manifest.get("kind")
    if kind not in KINDS:
        raise JobError(INPUT_UNUSABLE, f"Expected a policy or a checkpoint in {source}, its manifest says {kind}")
    return sealed


def _source_of(sealed: Sealed) -> dict[str, Any]:
    manifest = sealed.manifest
    return {
        "kind": manifest["kind"],
        "manifest_sha256": sealed.sha256,
        # A base policy has neither a version nor steps; the hash of its manifest names it.
        "policy_version": manifest.get("policy_version", f"v000000-{sealed.sha256[:8]}"),
        "global_step": manifest.get("global_step", 0),
    }


def _fill(sealed: Sealed, staging: Path, dtype: str | None) -> dict[str, Any]:
    is_checkpoint = sealed.manifest["kind"] == "checkpoint"
    if dtype is not None and not is_checkpoint:
        raise JobError(
            INVALID_SPEC, "Expected no --dtype: a policy was rounded when it was published; export its checkpoint"
        )
    # Importing torch and transformers takes seconds, so the refusals above come first.
    from longhaul_trainer.export.weights import copy_policy, write_checkpoint

    return (
        write_checkpoint(sealed, staging, dtype=dtype or DEFAULT_DTYPE)
        if is_checkpoint
        else copy_policy(sealed, staging)
    )
