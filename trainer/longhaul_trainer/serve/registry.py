"""The served versions: loads, leases and evicts them, and restores them after a crash."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from longhaul_trainer.directory import MANIFEST, TornDirectory, json_bytes, open_sealed, write_durably
from longhaul_trainer.hf_model import UnsupportedModel, load_model
from longhaul_trainer.serve.engine import Engine
from longhaul_trainer.serve.faults import loaded_over
from longhaul_trainer.serve.leases import Lease, Loaded, choose_eviction
from longhaul_trainer.serve.wire import HttpError

STATE = "served.json"
SCHEMA = "longhaul.served/1"


class Registry:
    """Thread-safe. Loading a model holds only the lock for loads, so sampling continues meanwhile."""

    def __init__(
        self, *, state_dir: Path, max_versions: int, device: torch.device, faults: set[str] | None = None
    ) -> None:
        self._state = state_dir / STATE
        self._max = max_versions
        self._device = device
        self._faults = set() if faults is None else faults
        self._engines: dict[str, Engine] = {}
        self._loaded: dict[str, Loaded] = {}
        self._lock = threading.Lock()
        self._loading = threading.Lock()

    def engine(self, version: str) -> Engine:
        """Raises HttpError 404 for a version that is not served: a stale server must never answer for a new policy."""
        with self._lock:
            engine = self._engines.get(version)
            if engine is None:
                served = ", ".join(sorted(self._engines)) or "none"
                raise HttpError(404, "model_not_found", f"Model {version} is not served here [served={served}]")
            self._loaded[version].last_used = time.time()
            return engine

    def load(
        self, *, path: str, version: str, manifest_sha256: str | None, holder: str | None, lease_s: float
    ) -> dict[str, Any]:
        """Idempotent for the same version and manifest. Raises HttpError 409 `version_conflict` or `busy`, 422 for a bad directory."""
        with self._loading:
            known = self._loaded.get(version)
            if known is None:
                digest = _verify(Path(path), manifest_sha256)
                with self._lock:
                    had = next(reversed(self._engines.values()), None)
                    self._make_room(holder)
                engine = _open(Path(path), version, self._device, self._faults)
                engine.model = loaded_over(None if had is None else had.model, engine.model, self._faults)
                known = Loaded(version=version, path=path, manifest_sha256=digest, last_used=time.time())
                with self._lock:
                    self._engines[version], self._loaded[version] = engine, known
            elif manifest_sha256 is not None and manifest_sha256 != known.manifest_sha256:
                raise HttpError(
                    409,
                    "version_conflict",
                    f"{version} is served from another manifest "
                    f"[served={known.manifest_sha256}, asked={manifest_sha256}]",
                )
            with self._lock:
                known.last_used = time.time()
                if holder is not None:
                    known.leases[holder] = Lease(renewed_at=time.time(), lease_s=lease_s)
                self._save()
            return describe(known)

    def release(self, *, holder: str, version: str | None) -> list[str]:
        with self._lock:
            freed = [
                loaded.version
                for loaded in self._loaded.values()
                if version in (None, loaded.version) and loaded.leases.pop(holder, None) is not None
            ]
            self._save()
            return sorted(freed)

    def list(self) -> list[dict[str, Any]]:
        with self._lock:
            return [describe(self._loaded[version]) for version in sorted(self._loaded)]

    def restore(self) -> None:
        """Loads the versions that were served before the last stop. Skips and reports directories that are missing or torn."""
        if not self._state.is_file():
            return
        for entry in json.loads(self._state.read_text())["versions"]:
            version, path = entry["version"], Path(entry["path"])
            try:
                _verify(path, entry["manifest_sha256"])
                self._engines[version] = _open(path, version, self._device, self._faults)
            except HttpError as error:
                print(f"Not served again: {version}: {error}", file=sys.stderr, flush=True)
                continue
            leases = {holder: Lease(**lease) for holder, lease in entry["leases"].items()}
            self._loaded[version] = Loaded(version, entry["path"], entry["manifest_sha256"], entry["last_used"], leases)

    def _make_room(self, holder: str | None) -> None:
        now = time.time()
        while len(self._loaded) >= self._max:
            victim = choose_eviction(list(self._loaded.values()), holder=holder, now=now)
            if victim is None:
                held = {loaded.version: loaded.holders(now) for loaded in self._loaded.values()}
                names = sorted({name for holders in held.values() for name in holders})
                raise HttpError(
                    409,
                    "busy",
                    f"All {self._max} places are leased [holders={', '.join(names)}]",
                    holders=names,
                    versions=held,
                )
            # Requests in flight keep a reference to their engine and finish on it.
            del self._engines[victim.version], self._loaded[victim.version]

    def _save(self) -> None:
        entries = [
            {
                "version": loaded.version,
                "path": loaded.path,
                "manifest_sha256": loaded.manifest_sha256,
                "last_used": loaded.last_used,
                "leases": {holder: vars(lease) for holder, lease in loaded.leases.items()},
            }
            for loaded in self._loaded.values()
        ]
        write_durably(self._state, json_bytes({"schema": SCHEMA, "versions": entries}))


def describe(loaded: Loaded) -> dict[str, Any]:
    return {
        "version": loaded.version,
        "path": loaded.path,
        "manifest_sha256": loaded.manifest_sha256,
        "holders": loaded.holders(time.time()),
    }


def _verify(path: Path, manifest_sha256: str | None) -> str | None:
    """Hash of the manifest; None for a plain model directory, which is accepted only if the request has no hash."""
    if manifest_sha256 is None and not (path / MANIFEST).exists():
        return None
    try:
        return open_sealed(path, expected_sha256=manifest_sha256).sha256
    except (TornDirectory, OSError) as error:
        raise HttpError(422, "bad_policy_directory", str(error)) from error


def _open(path: Path, version: str, device: torch.device, faults: set[str]) -> Engine:
    try:
        tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
        model = load_model(path, device=device)
    except Exception as error:
        # tokenizers raises bare Exception, transformers a dozen classes. All of them mean that this directory cannot be served.
        if isinstance(error, MemoryError | UnsupportedModel):
            raise HttpError(422, "unsupported_policy", str(error) or "out of memory") from error
        raise HttpError(422, "bad_policy_directory", f"Cannot load {path}: {error}") from error
    return Engine(model=model, tokenizer=tokenizer, version=version, faults=faults)
