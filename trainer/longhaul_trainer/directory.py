"""Immutable directories: MANIFEST.json lists size and SHA-256 of every file, COMMITTED holds the SHA-256 of MANIFEST.json.

A directory is valid if COMMITTED matches MANIFEST.json and every listed file has its size. Hashes are checked on load. Any other
directory is torn and never loaded.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MANIFEST = "MANIFEST.json"
COMMITTED = "COMMITTED"
SCHEMA = "longhaul.manifest/1"
# Fields of one file in MANIFEST.json.
ENTRY = {"path": str, "bytes": int, "sha256": str}
# Files hashed concurrently: one core hashes slower than a disk array reads.
HASHERS = 8


# os.umask can only be read by setting it, which affects all threads. At import no other thread runs yet.
UMASK = os.umask(0o022)
os.umask(UMASK)


class TornDirectory(Exception):
    """The directory is missing, incomplete or differs from its manifest. The message names the first difference."""


@dataclass(frozen=True)
class Sealed:
    """A verified directory. `sha256`: of the bytes of MANIFEST.json."""

    path: Path
    sha256: str
    manifest: dict[str, Any]


def sha256_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sha256_each(files: list[Path]) -> Iterator[str]:
    with ThreadPoolExecutor(min(HASHERS, os.cpu_count() or 1)) as pool:
        yield from pool.map(sha256_file, files)


def write_durably(path: Path, data: bytes) -> None:
    """Writes a temporary file in the same directory, fsyncs and renames it: readers see the old bytes or the new ones.

    The file has a name of its own: ranks of several containers often have equal process ids, and all report a lost rank at once.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    except BaseException:
        # On a full disk a partial file would keep it full.
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def share(path: Path) -> None:
    """Gives a file the mode of any new file of this process. safetensors lets only the owner read its files, and a cluster's workers
    and policy servers run as other users than the trainer."""
    path.chmod(0o666 & ~UMASK)


def fsync_path(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def json_bytes(value: Any) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def content_files(path: Path, unlisted: Iterable[str] = ()) -> list[Path]:
    skipped = {MANIFEST, COMMITTED, *unlisted}
    return sorted(
        entry for entry in path.rglob("*") if entry.is_file() and entry.relative_to(path).as_posix() not in skipped
    )


def write_manifest(
    path: Path,
    *,
    kind: str,
    facts: dict[str, Any],
    unlisted: Iterable[str] = (),
    known: Mapping[str, str] | None = None,
) -> str:
    """Fsyncs and hashes every file below `path` and writes MANIFEST.json last. Returns the hash of its bytes.

    `facts` must not depend on attempt, time or path, so that the same inputs give the same manifest everywhere. `unlisted`: files
    to leave out. `known`: hashes by file name that the caller has already computed.
    """
    sizes = {}
    for entry in content_files(path, unlisted):
        fsync_path(entry)
        sizes[entry.relative_to(path).as_posix()] = entry.stat().st_size
    known = known or {}
    unknown = [name for name in sizes if name not in known]
    hashes = {**known, **dict(zip(unknown, _sha256_each([path / name for name in unknown]), strict=True))}
    files = [{"path": name, "bytes": size, "sha256": hashes[name]} for name, size in sizes.items()]
    data = json_bytes({"schema": SCHEMA, "kind": kind, **facts, "files": files})
    write_durably(path / MANIFEST, data)
    fsync_path(path)
    return sha256_bytes(data)


def mark_committed(path: Path, manifest_sha256: str) -> None:
    write_durably(path / COMMITTED, f"{manifest_sha256}\n".encode())
    fsync_path(path)


def read_manifest(path: Path) -> tuple[dict[str, Any], str]:
    """Raises TornDirectory, and OSError if the file exists but cannot be read: the directory may be whole."""
    try:
        data = (path / MANIFEST).read_bytes()
        manifest = json.loads(data)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise TornDirectory(f"Expected {MANIFEST} in {path}, got {error.strerror}") from error
    except ValueError as error:
        raise TornDirectory(f"Expected JSON in {path / MANIFEST}: {error}") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), list):
        raise TornDirectory(f"Expected a list `files` in {path / MANIFEST}")
    for entry in manifest["files"]:
        if not isinstance(entry, dict) or any(not isinstance(entry.get(name), kind) for name, kind in ENTRY.items()):
            raise TornDirectory(f"Expected path, bytes and sha256 of each file in {path / MANIFEST}, found {entry}")
    return manifest, sha256_bytes(data)


def verify_files(path: Path, manifest: dict[str, Any], *, hashes: bool, part: tuple[int, int] = (0, 1)) -> None:
    """Checks the sizes of all files, and with `hashes` the hashes of part `(k, n)`: every n-th file from k. n ranks check all files.

    Raises TornDirectory with the first difference.
    """
    for entry in manifest["files"]:
        file = path / entry["path"]
        if not file.resolve().is_relative_to(path.resolve()):
            raise TornDirectory(f"{MANIFEST} of {path} lists a file outside it: {entry['path']}")
        size = file.stat().st_size if file.is_file() else None
        if size != entry["bytes"]:
            raise TornDirectory(f"Expected {file} to have {entry['bytes']} bytes, found {size}")
    if not hashes:
        return
    entries = manifest["files"][part[0] :: part[1]]
    for entry, found in zip(entries, _sha256_each([path / entry["path"] for entry in entries]), strict=True):
        if found != entry["sha256"]:
            raise TornDirectory(f"Expected {path / entry['path']} to hash to {entry['sha256']}, found {found}")


def check_marker(path: Path, digest: str) -> None:
    """Raises TornDirectory if COMMITTED names another manifest than the one that hashes to `digest`."""
    marker = path / COMMITTED
    if (marked := marker.read_bytes().decode(errors="replace").strip()) != digest:
        raise TornDirectory(f"Expected {marker} to hold {digest}, found {marked[:80]}")


def open_sealed(path: Path, *, expected_sha256: str | None = None, hashes: bool = True) -> Sealed:
    """Verifies a committed directory. Raises TornDirectory with the first difference."""
    manifest, digest = read_manifest(path)
    if not (path / COMMITTED).is_file():
        raise TornDirectory(f"Expected {COMMITTED} in {path}: the directory was never committed")
    check_marker(path, digest)
    if expected_sha256 is not None and digest != expected_sha256:
        raise TornDirectory(f"Expected {path / MANIFEST} to hash to {expected_sha256}, found {digest}")
    verify_files(path, manifest, hashes=hashes)
    return Sealed(path=path, sha256=digest, manifest=manifest)


def seal(path: Path, *, kind: str, facts: dict[str, Any]) -> str:
    """Seals a finished directory in place. No other process may see it yet. Returns the hash of its manifest."""
    digest = write_manifest(path, kind=kind, facts=facts)
    mark_committed(path, digest)
    return digest
